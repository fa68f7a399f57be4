"""``moorage explain``: explains on which node one pod would be placed, or why it fits no node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from moorage.cli.inputs import feature_gates, input_options, load_input, scheduler_options
from moorage.cli.messages import print_message
from moorage.errors import InputError

if TYPE_CHECKING:
    from moorage.objects import Cluster

POD_TYPES = ("pod", "pods", "po")
ALL = "all"


def _count(context: click.Context, option: click.Parameter, value: str) -> int | None:
    """Parse a number of rows; None stands for ``all``."""
    if value == ALL:
        return None
    if not re.fullmatch("[0-9]{1,9}", value):
        raise click.BadParameter(f"{value!r} is neither a number nor {ALL}", context, option)
    return int(value)


@click.command()
@click.argument("pod")
@input_options
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="For --synthetic.")
@click.option("-n", "--namespace", help="The pod's namespace; needed only where the name is not unique.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
@click.option(
    "--nodes",
    "limit",
    callback=_count,
    metavar="N|all",
    default="10",
    show_default=True,
    help="How many of the nodes that the pod fits are shown; all: these, and the names of all others.",
)
@click.option("--node", "names", multiple=True, metavar="NAME", help="Show this node in detail; repeatable.")
@click.option(
    "--alone",
    "situation",
    flag_value="alone",
    help="Ignore all other pending pods; by default those are placed that simulate places before POD.",
)
@click.option(
    "--after-run",
    "situation",
    flag_value="after-run",
    help="When simulate has ended: those are placed, too, that come after POD.",
)
@scheduler_options
def explain(
    pod: str,
    files: tuple[str, ...],
    synthetic: str | None,
    seed: int,
    namespace: str | None,
    output: str,
    limit: int | None,
    names: tuple[str, ...],
    situation: str | None,
    config: str | None,
    gates: str,
) -> None:
    """Explain where POD (a name, NAMESPACE/NAME or pod/NAME) would go, or why it fits nowhere: what every
    filter says of every node, the scores, and the smallest changes that would place it.

    A pending pod is explained as simulate finds the cluster when it decides about it: volumes are bound, and
    the pods that come before it in the queue are on their nodes. A pod that is on a node is explained as if
    it were not.
    """
    from moorage.cli.explain_output import write
    from moorage.plugins.registry import read_configuration
    from moorage.scheduler import Scheduler
    from moorage.scheduler.explain.situations import SITUATIONS

    cluster = load_input(files, synthetic, seed)
    key = find_pod(cluster, pod, namespace)
    enabled = feature_gates(gates)
    # Read once, because the file may be standard input.
    configuration = None if config is None else read_configuration(config, enabled)
    node_names = {node.name for node in cluster.nodes}
    for name in names:
        if name not in node_names:
            raise InputError("there is no such node", source="--node", obj=name)
    explanation = SITUATIONS[situation or "in-turn"](
        lambda: Scheduler(cluster, config=configuration, feature_gates=enabled), key
    )
    for warning in cluster.warnings:
        print_message("warning", warning)
    write(output, explanation, limit, names)


def find_pod(cluster: Cluster, text: str, namespace: str | None) -> str:
    """Find the pod that the argument of the command names.

    Parameters
    ----------
    cluster : Cluster
        The objects of the cluster.
    text : str
        Name, ``NAMESPACE/NAME`` or ``pod/NAME``.
    namespace : str or None
        Namespace of the option; None without it.

    Returns
    -------
    str
        ``namespace/name``.

    Raises
    ------
    InputError
        There is no such pod, it has finished, or pods of several namespaces have this name.
    """
    place, _, name = text.rpartition("/")
    keys = {pod.key for pod in cluster.pods}
    if place in POD_TYPES and text not in keys:
        place = ""
    if place and namespace not in (None, place):
        raise InputError(f"not in namespace {namespace}", source="POD", obj=text)
    place = place or namespace or ""
    pods = [pod for pod in cluster.pods if pod.name == name and place in ("", pod.namespace)]
    if len(pods) > 1:
        places = ", ".join(sorted(pod.namespace for pod in pods))
        raise InputError(f"in several namespaces ({places}): choose one with -n", source="POD", obj=text)
    if pods:
        return pods[0].key
    if any(pod.name == name and place in ("", pod.namespace) for pod in cluster.finished):
        raise InputError("has finished: it is not scheduled any more", source="POD", obj=text)
    where = f" in namespace {place}" if place else ""
    raise InputError(f"there is no such pod{where}", source="POD", obj=text)
