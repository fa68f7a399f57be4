"""Alternatives of ``moorage compare``: what each argument stands for, and the measures of its run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace as with_fields

from moorage.answers.scheduler import Scheduler
from moorage.cluster.changes.drain import MIRROR_ANNOTATION
from moorage.engine.plugins.registry import read_configuration
from moorage.errors import ConfigurationError, InputError, located, nearest
from moorage.kube import Cluster, Node, Pod
from moorage.kube.model.pod import PodStatus
from moorage.kube.read.load import read_objects
from moorage.kube.workloads.ownership import FINISHED

from ..options.change_options import OPTIONS, RequestedChange, parse_changes
from ..options.configuration_kind import naming_other_kinds
from ..options.inputs import is_input, load_input, names_server, scheduler_settings, without_server
from ..options.new_node_options import coming_nodes, refuse_no_node
from .simulation import NOT_STARTED, PLACED, REPLACED, Preparation, Simulation

AS_IS = "as-is"
CONFIGURATION = b"KubeSchedulerConfiguration"


class Alternative(Struct, frozen=True, dict=True):
    """One of several runs that are compared.

    Attributes
    ----------
    name : str
        The argument.
    simulation : Simulation
    """

    name: str
    simulation: Simulation

    @property
    def measures(self) -> dict[str, float]:
        """The measures of the run, by name."""
        done = self.simulation
        summary = done.summary
        statuses = [one.status for one in done.outcomes]
        found: dict[str, float] = {
            "nodes": summary.nodes,
            "cordoned nodes": summary.nodes - len(_open_rows(done.scheduler)),
            "nodes with pods": _nodes_with_pods(done.scheduler),
            "placed": summary.placed,
            "without a node": sum(status not in (PLACED, REPLACED, NOT_STARTED) for status in statuses),
            "evicted": summary.evicted + len(done.evicted),
        }
        if (grown := done.grown) is not None:
            found["new nodes"] = len(grown.up.nodes)
            found |= {} if grown.up.price is None else {"new nodes $/h": round(grown.up.price, 4)}
            if grown.up.price is not None and grown.before is not None and not grown.before.unknown:
                found["nodes $/h"] = round(grown.before.price + grown.up.price, 4)
        for use in summary.use:
            if (percent := _use(done.scheduler, use.resource)) is not None:
                found[f"{use.resource} use %"] = percent
        for resource in ("cpu", "memory"):
            found[f"{resource} imbalance %"] = _imbalance(done.scheduler, resource)
        return found

    @cached_property
    def nodes(self) -> dict[str, str]:
        """The node of each pod that has one and has not finished, by ``namespace/name``."""
        pods = self.simulation.scheduler.client.list(Pod)[0]
        on_nodes = (pod for pod in pods if pod.spec.node_name and pod.status.phase not in FINISHED)
        return {pod.key: pod.spec.node_name for pod in on_nodes}

    @cached_property
    def places(self) -> dict[str, str]:
        """Where each pod is: its node, or its status, by ``namespace/name``."""
        places = {one.pod.key: one.status for one in self.simulation.outcomes if one.status != REPLACED}
        return places | self.nodes

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why pods have no node, by ``namespace/name``, without what preemption adds."""
        return {one.pod.key: one.short_reason for one in self.simulation.outcomes if one.status != PLACED}


def _nodes_with_pods(scheduler: Scheduler) -> int:
    rows = np.asarray(scheduler.context.view_rows())
    return int((scheduler.table.requested["pods"][rows] > 0).sum())


def _open_rows(scheduler: Scheduler) -> npt.NDArray[np.int32]:
    """Return the rows of the nodes that are not cordoned: what is left where some were drained."""
    rows, objects = np.asarray(scheduler.context.view_rows()), scheduler.table.objects
    return rows[[not objects[row].spec.unschedulable for row in rows.tolist()]]


def _use(scheduler: Scheduler, resource: str) -> float | None:
    """Return the requested part of a resource on the nodes that are not cordoned, in percent; None where they
    have none."""
    rows = _open_rows(scheduler)
    total = int(scheduler.table.column("allocatable", resource)[rows].sum())
    requested = int(scheduler.table.column("requested", resource)[rows].sum())
    return round(100 * requested / total, 2) if total else None


def _imbalance(scheduler: Scheduler, resource: str) -> float:
    """Return the standard deviation of the requested part of a resource over nodes, in percent."""
    rows = _open_rows(scheduler)
    allocatable = scheduler.table.allocatable[resource][rows]
    parts = scheduler.table.requested[resource][rows][allocatable > 0] / allocatable[allocatable > 0]
    return round(100 * float(np.std(parts)), 2) if len(parts) else 0.0


def run_alternative(name: str, options: Mapping[str, Any], from_scratch: bool) -> Alternative:
    """Run what an argument of ``moorage compare`` stands for.

    Parameters
    ----------
    name : str
        ``as-is``, changes such as ``drain n1; scale deploy/web=4``, a file with a KubeSchedulerConfiguration,
        a file or directory with a cluster, one without a node, which changes the cluster, or one with node
        groups.
    options : mapping of str to object
        The values of `input_options` and `scheduler_options`.
    from_scratch : bool
        Whether bound pods are placed anew.

    Raises
    ------
    InputError
        The file or a change is not valid.
    """
    changes: Sequence[RequestedChange] = [] if name == AS_IS else parse_changes(name)
    is_cluster = name != AS_IS and not changes
    is_configuration = is_cluster and _is_configuration(name)
    is_cluster = is_cluster and not is_configuration
    if is_cluster and not is_input(name):
        raise InputError(f"no such file, {_other_forms(name)}", source=name)
    if is_cluster and _is_group_file(name):
        options, is_cluster = {**options, "groups_file": name}, False
    may_change = is_cluster and bool(options["files"] or names_server(options))
    cluster = None
    try:
        cluster = load_input(
            {**without_server(options), "files": (name,), "synthetic": None} if is_cluster else options
        )
    except InputError:
        if not may_change or _has_nodes(name, options):
            raise
    if cluster is None or (may_change and not cluster.nodes):
        cluster = load_input({**options, "files": (*options["files"], name)})
    refuse_no_node(cluster, options, name if is_cluster else "-f")
    settings = scheduler_settings(options, cluster)
    if is_configuration:
        with located(source=name), naming_other_kinds():
            try:
                settings["config"] = read_configuration(name, settings["feature_gates"])
            except ConfigurationError as error:
                raise InputError(error.message, path=error.path) from None
    coming = coming_nodes(options, cluster)
    if from_scratch:
        cluster = without_bindings(cluster)
    return Alternative(name, Preparation(cluster, settings, changes, coming).run())


def _other_forms(name: str) -> str:
    """Return what an error adds about what else an alternative may be."""
    word = name.split()[0] if name.strip() else ""
    metavars = {option.name.removeprefix("--"): option.metavar for option in OPTIONS}
    if metavars.get(word):
        return f"and the change {word} is written {word} {metavars[word]}"
    known = [AS_IS, "kubernetes", *metavars]
    forms = f"and not {AS_IS}, a change such as 'drain n1', or a release such as 'kubernetes 1.36'"
    return forms + nearest(word, known)


def _is_configuration(name: str) -> bool:
    """Whether a file is a KubeSchedulerConfiguration."""
    try:
        with open(name, "rb") as file:
            return CONFIGURATION in file.read(1 << 16)
    except (OSError, ValueError):
        return False  # a directory; or what the reader of clusters refuses


def _has_nodes(name: str, options: Mapping[str, Any]) -> bool:
    """Whether files have a node: without one they change a cluster."""
    read = read_objects(name, recursive=options["recursive"], validate="ignore")
    return any(isinstance(obj, Node) for obj in read.objects)


def _is_group_file(name: str) -> bool:
    """Whether a file has node groups."""
    try:
        with open(name, "rb") as file:
            return re.search(rb"^nodeGroups:", file.read(1 << 16), re.MULTILINE) is not None
    except (OSError, ValueError):
        return False


def without_bindings(cluster: Cluster) -> Cluster:
    """Return a cluster whose pods have no nodes, except for mirror pods."""
    pods = [
        pod
        if not pod.spec.node_name
        or MIRROR_ANNOTATION in pod.metadata.annotations
        or pod.metadata.deletion_timestamp
        else with_fields(pod, spec=with_fields(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
        for pod in cluster.pods
    ]
    return replace(cluster, pods=pods)


def differing(alternatives: Sequence[Alternative]) -> dict[str, list[str]]:
    """Return the pods that are not in the same place everywhere.

    Returns
    -------
    dict of str to list of str
        ``namespace/name`` to the place in each alternative; "" where there is no such pod.
    """
    places = [one.places for one in alternatives]
    keys = sorted(set().union(*places))
    rows = {key: [one.get(key, "") for one in places] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}
