"""Evidence: the facts by which filters reject nodes, with the amounts that they compared, in words.

A plugin that extends `EvidencePlugin` is asked once per explanation for a function, and the function once for
nodes that it rejects alike. Evidence is made of what the filter read: counters, columns and caches of the
engine. Texts, JSON and pages are made from evidence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import PodGates, pod_requests
from moorage._core.decide.search import Search
from moorage.kube import Node, Pod
from moorage.kube.releases import FeatureGates

from .status import CycleState, Status

Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Evidence:
    """A fact by which a filter rejects nodes. Equal facts about several nodes count as one.

    Attributes
    ----------
    kind : str
        What it is about; a constant of the class.
    is_need : bool
        Whether it is about the node itself, which lacks something that the pod asks for; else it is about
        other objects. A constant of the class.
    nodes : int
        Number of nodes.
    """

    kind: ClassVar[str]
    is_need: ClassVar[bool] = False
    nodes: int = field(default=1, compare=False, kw_only=True)

    @property
    def name(self) -> str:
        """The object that it is about: a pod, a claim, a domain, a taint, a resource."""
        raise NotImplementedError

    @property
    def detail(self) -> str:
        """How the object keeps the pod off, in words."""
        return ""

    @property
    def text(self) -> str:
        """The whole fact in words."""
        detail = self.detail
        return f"{self.kind.replace('-', ' ')} {self.name}" + (f" ({detail})" if detail else "")

    @property
    def key(self) -> object:
        """What evidence has in common that counts as one, see `merged`."""
        return self

    def merged(self, other: Self) -> Self:
        """Return one fact of this one and one with the same key, about other nodes."""
        return replace(self, nodes=self.nodes + other.nodes)

    def facts(self) -> dict[str, Any]:
        """Return what was compared, by its name, in values of JSON."""
        return {}


@dataclass(frozen=True)
class Fact(Evidence):
    """A fact in words. Facts of one kind with the same words are equal.

    Attributes
    ----------
    about, how : str
        Its `name` and `detail`.
    words : str
        The whole fact, where that is not what `Evidence.text` makes of kind, object and `how`.
    values : mapping of str to object
        What was compared, in values of JSON.
    """

    kind: str  # type: ignore[misc]
    about: str
    how: str = ""
    words: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The object that it is about."""
        return self.about

    @property
    def detail(self) -> str:
        """How the object keeps the pod off."""
        return self.how

    @property
    def text(self) -> str:
        """The whole fact in words."""
        return self.words or super().text

    def facts(self) -> dict[str, Any]:
        return dict(self.values)


class Need(Fact):
    """A fact about the node itself, which lacks something that the pod asks for."""

    is_need = True


FindEvidence = Callable[[Rows, Status], Iterable[Evidence]]
"""Returns the evidence of nodes, by their rows, that a filter rejects with a status."""


@dataclass(frozen=True)
class RejectedPod:
    """What plugins are asked with: a pod after PreFilter, and the search of its cycle.

    Attributes
    ----------
    pod : Pod
    state : CycleState
    search : Search
    says : callable
        Returns what the filters other than the named one have against the node of a row, in words.
    """

    pod: Pod
    state: CycleState
    search: Search
    says: Callable[[int, str], list[str]]

    def node(self, row: int) -> Node:
        """Return the node of a row."""
        node = self.search.state.table.objects[row]
        assert node is not None  # every searched row has a node object
        return node

    def alike(self, rows: Rows, keys: Iterable[str]) -> Iterator[tuple[int, int]]:
        """Group nodes by their values of labels.

        Parameters
        ----------
        rows : (n,) int32 array
        keys : iterable of str
            Of the labels.

        Yields
        ------
        row, nodes : int
            The first node of each group, in the order of the rows, and its number of nodes.
        """
        groups = np.zeros(len(rows), dtype=np.int64)
        for key in keys:
            values = self.search.state.table.label_column(key)[rows].astype(np.int64)
            _, groups = np.unique(groups * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        for at in np.argsort(first).tolist():
            yield int(rows[first[at]]), int(counts[at])

    def pods_on(self, row: int) -> list[Pod]:
        """Return the pods on the node of a row."""
        return self.search.state.pods_of(row)

    def nominated_on(self, row: int) -> list[Pod]:
        """Return the nominated pods for which the filters keep room on the node of a row."""
        return self.search.nominated_on(row, self.state.shape.priority)


def distinct_evidence(sources: Iterable[Iterable[Evidence]]) -> Iterator[Evidence]:
    """Yield the facts that several constraints of a pod give about the same nodes, equal ones once."""
    keys: set[object] = set()
    for source in sources:
        facts = merge_evidence(source)
        yield from (fact for fact in facts if fact.key not in keys)
        keys |= {fact.key for fact in facts}


def merge_evidence(facts: Iterable[Evidence]) -> list[Evidence]:
    """Return each fact once, those of the most nodes first.

    Returns
    -------
    list of Evidence
        Facts of equally many nodes in the order of their first appearance.
    """
    merged: dict[object, Evidence] = {}
    for fact in facts:
        known = merged.get(fact.key)
        merged[fact.key] = fact if known is None else known.merged(fact)
    return sorted(merged.values(), key=lambda fact: -fact.nodes)


# ---- amounts -----------------------------------------------------------------------------------------------
# What pods request under feature gates, and amounts of resources as quantities, for texts.

_ZERO = Quantity("0")
_BINARY = Quantity("1Ki")
_MULTIPLES = "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"
_SHOWN_FIRST = ("cpu", "memory", "pods", "ephemeral-storage")


def asked_by(pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a pending pod asks for, as the scheduler computes (fit.go, computePodResourceRequest)."""
    return pod_requests(pod, gates, resizes=False)


def held_by(pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a pod on a node holds of it: resizes in progress count, and what its devices take."""
    return pod_requests(pod, gates, claims=gates.node_allocatable_claims)


def gates_of_changes(gates: FeatureGates) -> PodGates:
    """Return how requests are counted where a pod before and after a change is compared.

    spec.resources counts in any case (kube-scheduler v1.36, framework/events.go
    extractPodResourceRequestEvents, fit.go isSchedulableAfterPodScaleDown).
    """
    return PodGates(
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        resizes_by_sums=gates.release.resizes_by_sums,
    )


def in_shown_order(resources: Iterable[str]) -> list[str]:
    """Return names of resources in the order in which summaries and pages show them."""
    names = set(resources)
    return [name for name in _SHOWN_FIRST if name in names] + sorted(names.difference(_SHOWN_FIRST))


def unit(resource: str) -> str:
    """Return the unit in which a resource is counted."""
    if resource == "cpu":
        return "millicores"
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "count"


def quantity_text(resource: str, amount: int) -> str:
    """Return an amount of a resource as the shortest quantity, in binary multiples for bytes.

    Parameters
    ----------
    amount : int
        Millicores, bytes, or the resource's own unit.
    """
    match unit(resource):
        case "millicores":
            return str(Quantity(f"{amount}m") + _ZERO)
        case "bytes":
            return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)


def readable(resource: str, amount: int) -> str:
    """Return an amount as people write it, in about three digits: ``3.5`` cpu, ``500m``, ``14.5Gi``.

    Parameters
    ----------
    amount : int
        As for `quantity_text`.
    """
    if unit(resource) == "millicores" and abs(amount) > 1000:
        return f"{amount / 1000:g}"
    if unit(resource) != "bytes" or not amount:
        return quantity_text(resource, amount)
    at = min((abs(amount).bit_length() - 1) // 10, len(_MULTIPLES) - 1)
    value = amount / (1 << 10 * at)
    digits = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}".removesuffix(".0")
    return f"{digits}{_MULTIPLES[at]}"


def offered(resource: str, amount: int) -> str:
    """Return an amount that is to be written into a manifest: as people write it if that is exactly it."""
    text, exact = readable(resource, amount), quantity_text(resource, amount)
    return text if Quantity(text) == Quantity(exact) else exact


def compared(resource: str, *amounts: int) -> tuple[str, ...]:
    """Return amounts as people write them, exactly where two that differ would read alike."""
    texts = tuple(readable(resource, amount) for amount in amounts)
    if len(set(texts)) == len(set(amounts)):
        return texts
    return tuple(quantity_text(resource, amount) for amount in amounts)
