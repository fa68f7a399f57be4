"""What a shell offers where an option names something of the input: read when the user asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from moorage.kube import Cluster

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def offered_nodes(cluster: Cluster) -> Iterable[str]:
    """Return the names of nodes, and ``zone=a`` for those of a zone."""
    return (*(node.name for node in cluster.nodes), *(f"zone={zone}" for zone in offered_zones(cluster)))


def offered_zones(cluster: Cluster) -> Iterable[str]:
    """Return the zones of nodes."""
    from moorage.sim.summary import zone_of

    return filter(None, map(zone_of, cluster.nodes))


def offered_labels(cluster: Cluster) -> Iterable[str]:
    """Return the keys of the labels of nodes."""
    return (key for node in cluster.nodes for key in node.metadata.labels)


def offered_namespaces(cluster: Cluster) -> Iterable[str]:
    """Return the names of namespaces."""
    return (one.name for one in cluster.namespaces)


def offered_workloads(cluster: Cluster) -> Iterable[str]:
    """Return the workloads, and the pods without one, as options name them: ``deployment/NAMESPACE/NAME``."""
    from moorage.cluster.changes.selection import WORKLOADS

    there = (one for one in cluster.others if isinstance(one, tuple(WORKLOADS)))
    listed = [one for one in (*there, *cluster.pods) if one.metadata.controller() is None]
    return (f"{one.kind.lower()}/{one.namespace}/{one.name}" for one in listed)


def offer(names_in: Callable[[Cluster], Iterable[str]], *others: str) -> Complete:
    """Return what completes an option by names of the files of -f; by none if they cannot be read.

    Parameters
    ----------
    names_in : callable
        Returns the names.
    *others : str
        Words that the option takes beside them.
    """

    def complete(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        return _items((*others, *_names(context.params, names_in)), begun)

    return complete


def offer_contexts(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a context by those of the kubeconfig."""
    from moorage.kube.read.yaml_reader import read_yaml

    default = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube/config")
    names: list[str] = []
    for path in str(context.params.get("kubeconfig") or default).split(os.pathsep):
        try:
            for document in read_yaml(Path(path).read_text(), path):
                names += [one["name"] for one in document["contexts"]]
        except Exception:
            continue
    return _items(names, begun)


def _names(options: dict[str, Any], names_in: Callable[[Cluster], Iterable[str]]) -> Iterable[str]:
    """Return names of the files of -f; those of an API server would take too long."""
    if not options.get("files"):
        return ()
    from moorage.kube import load

    try:
        files = map(Path, options["files"])
        return sorted(
            set(names_in(load(*files, recursive=bool(options.get("recursive")), validate="ignore")))
        )
    except Exception:
        return ()


def _items(names: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(begun)]
