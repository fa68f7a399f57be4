"""What to know about the new nodes of a plan on which pods still have no place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from moorage.cluster import PodScheduler
from moorage.engine.framework.plugin.amounts import compared
from moorage.engine.plugins.node_resources_fit import INSUFFICIENT
from moorage.engine.requirements.terms import POD_TERMS, hard_spreads, pod_terms
from moorage.errors import examples
from moorage.kube import Node, Pod
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.pod import PodSpec

MOST = 5
"""Maximum number of domains that are named."""


def missing_domains(pods: Iterable[Pod], templates: Iterable[Node], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the topologies of pods without a place that have domains which no template is in.

    Parameters
    ----------
    templates : iterable of Node
        New nodes, one of each template.
    nodes : iterable of Node
        Of the cluster.

    Yields
    ------
    str
        A sentence for each topology.
    """
    keys = dict.fromkeys(key for pod in pods for key in _hard_topologies(pod.spec) if key != HOSTNAME)
    present = [node.metadata.labels for node in nodes]
    made = [node.metadata.labels for node in templates]
    for key in keys:
        domains = {labels[key] for labels in present if key in labels}
        if missing := sorted(domains - {labels.get(key, "") for labels in made}):
            where = f"{'zone' if key == ZONE else key}={missing[0]}"
            of = f"No template is in {key} {examples(missing, MOST)}, on which pods without a place depend"
            yield f"{of}; --like NODE,{where} adds one."


def _hard_topologies(spec: PodSpec) -> Iterator[str]:
    yield from (spread.topology_key for spread in hard_spreads(spec))
    for path in POD_TERMS.values():
        yield from (term.topology_key for term in pod_terms(spec, path))


def share_of_daemons(
    scheduler: PodScheduler, made: Mapping[str, Node], reasons: Iterable[str]
) -> Iterator[str]:
    """Yield how much of new nodes DaemonSets take, of the resources that pods without a place lack.

    Parameters
    ----------
    scheduler : Scheduler
        With the new nodes, and on them the pods of DaemonSets alone.
    made : mapping of str to Node
        A new node by the name of its template.
    reasons : iterable of str
        Why pods have no place.

    Yields
    ------
    str
        A sentence for each node and resource.
    """
    table, texts = scheduler.table, list(reasons)
    for name, node in made.items():
        row = table.find_row(node.name)
        for resource in ("cpu", "memory", *sorted(table.allocatable.keys() - {"cpu", "memory", "pods"})):
            taken = int(table.column("requested", resource)[row])
            lacks = re.compile(rf"{INSUFFICIENT}{re.escape(resource)}(?![\w./-]*\w)")  # no longer name
            if taken and any(map(lacks.search, texts)):
                room = int(table.column("allocatable", resource)[row])
                share, whole = compared(resource, taken, room)
                yield f"DaemonSets take {share} of the {whole} {resource} of a new node like {name}."
