"""Topology spread: which domains have too many pods, and which field of a constraint is loosened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec.structs import replace

from moorage._core.base.selectors import find_intolerable_taint
from moorage._core.decide.terms import DomainCounts
from moorage.cluster.helpful_changes import HelpfulChange, Kind, dropped, of_pod
from moorage.cluster.requirements import SPREADS, Spread, changed_term, hard_spreads
from moorage.engine.framework import Status
from moorage.engine.framework.evidence import Evidence, Fact, FindEvidence, RejectedPod, Rows
from moorage.engine.plugins.pod_topology_spread import HARD, MISMATCH, PodTopologySpread
from moorage.errors import number_of
from moorage.grouped import grouped
from moorage.kube.model.node import REJECTING_EFFECTS
from moorage.kube.model.pod import TopologySpreadConstraint

from ..probe import Probe, largest
from .merge_evidence import distinct_evidence

DEFAULT = "defaultConstraints of the profile"
MOST_DOMAINS = 20
"""Maximum number of domains of a topology that are named of nodes that are rejected alike."""
MOST_NODES = 2
"""Maximum number of nodes that are named of the domain with the fewest pods."""


class _Spread:
    """A hard spread constraint, and what its filter reads of the cluster.

    Parameters
    ----------
    own : int
        1 if the pod matches its own constraint.
    """

    def __init__(
        self,
        inquiry: RejectedPod,
        constraint: TopologySpreadConstraint,
        counts: DomainCounts,
        own: int,
        max_skew: int,
        min_domains: int,
    ) -> None:
        self._honors_taints = constraint.node_taints_policy == "Honor"
        self._inquiry, self._counts, self._own = inquiry, counts, own
        self._max_skew, self._min_domains = max_skew, min_domains
        self._key = counts.topology_key
        self._is_default = not inquiry.state.shape.spread
        labels = inquiry.pod.metadata.labels
        keys = [key for key in constraint.match_label_keys if key in labels]
        self._match_label_keys = [f"{key}={labels[key]}" for key in keys]
        self._domains = counts.by_domain()
        self._fewest = min((pods for pods, _ in self._domains.values()), default=0)
        if len(self._domains) < min_domains:
            self._fewest = 0

    def evidence(self, rows: Rows, has_labels: bool) -> Iterator[Evidence]:
        """Yield the domains of some nodes that violate the constraint, those with the fewest pods first, and
        nodes without the label.

        Parameters
        ----------
        rows : (n,) int32 array
        has_labels : bool
            Whether all nodes have the labels of all constraints.
        """
        nodes = self._nodes_by_domain(rows)
        if not has_labels:
            lacking = nodes.pop((None, 0), 0)
            if lacking:
                text = "the node lacks this label" + (f"; {DEFAULT}" if self._is_default else "")
                default = {"isDefault": self._is_default}
                yield Fact("domain", self._key, text, values=default, nodes=lacking)
            return  # upstream does not compare domains of such a node
        violated = [
            (value, nominated, many)
            for (value, nominated), many in nodes.items()
            if value is not None and self._with_pod(value, nominated) - self._fewest > self._max_skew
        ]
        violated.sort(key=lambda skewed: (self._with_pod(*skewed[:2]), -skewed[2]))  # the nearest miss first
        for value, nominated, many in violated[:MOST_DOMAINS]:
            yield self._of_domain(value, nominated, many)
        if len(violated) > MOST_DOMAINS:
            more = violated[MOST_DOMAINS:]
            others = number_of(len(more), "other domain violates", "other domains violate")
            listed = sum(many for *_, many in more)
            yield Fact("domain", self._key, f"{others} it, too", values={"domains": len(more)}, nodes=listed)

    def _nodes_by_domain(self, rows: Rows) -> Counter[tuple[str | None, int]]:
        """Return the number of nodes by domain and by the number of nominated pods that match."""
        inquiry = self._inquiry
        names, column = inquiry.search.state.symbols.names, inquiry.search.state.table.label_column(self._key)
        if inquiry.search.has_nominated:
            pairs = [
                (names[value] if value else None, self._nominated(row))
                for row, value in zip(rows.tolist(), column[rows].tolist(), strict=True)
            ]
            return Counter(pairs)
        values, counts = np.unique(column[rows], return_counts=True)
        listed = zip(values.tolist(), counts.tolist(), strict=True)
        return Counter({(names[value] if value else None, 0): many for value, many in listed})

    def _nominated(self, row: int) -> int:
        if not self._counts.is_eligible(row):
            return 0
        namespace = self._inquiry.pod.namespace
        pods = self._inquiry.nominated_on(row)
        return sum(pod.namespace == namespace and self._counts.matches(pod) for pod in pods)

    def _with_pod(self, value: str, nominated: int) -> int:
        return self._domains.get(value, (0, 0))[0] + self._own + nominated

    def _of_domain(self, value: str, nominated: int, many: int) -> Fact:
        """Return a domain that violates the constraint: with the pod less the fewest is more than maxSkew."""
        too_few = len(self._domains) < self._min_domains
        least = [other for other, (pods, _) in self._domains.items() if pods == self._fewest]
        fewest_in = None if too_few or not least else (value if value in least else least[0])
        rows, terminating = ([], 0) if fewest_in in (None, value) else self._in_fewest
        values: dict[str, Any] = {
            "topologyKey": self._key,
            "value": value,
            "withPod": self._with_pod(value, nominated),
            "matchesItself": bool(self._own),
            "nominated": nominated,
            "fewest": self._fewest,
            "fewestIn": fewest_in,
            "fewestNodes": list(self._node_texts(rows)),
            "otherFewest": 0 if fewest_in is None else len(least) - 1,
            "terminating": terminating,
            "domains": len(self._domains),
            "minDomains": self._min_domains,
            "maxSkew": self._max_skew,
            "matchLabelKeys": self._match_label_keys,
            "isDefault": self._is_default,
        }
        own = "with this pod" if self._own else "matching pods; this pod does not match"
        own += f" and {nominated} nominated" if nominated else ""
        default = f" ({DEFAULT})" if self._is_default else ""
        keys = self._match_label_keys
        only = f", of pods with {', '.join(keys)} by matchLabelKeys" if keys else ""
        name, skew = f"{self._key}={value}", f"maxSkew {self._max_skew}{default}{only}"
        detail = f"{values['withPod']} {own}, {_fewest_text(values)}, {skew}"
        values = {key: known for key, known in values.items() if known is not None}
        return Fact("domain", name, detail, f"domain {name}: {detail}", values, nodes=many)

    @cached_property
    def _in_fewest(self) -> tuple[list[int], int]:
        """The rows of the first domain with the fewest pods, as far as their nodes count, and how many pods
        there would count, were they not being deleted."""
        fewest_in = next(value for value, (pods, _) in self._domains.items() if pods == self._fewest)
        state = self._inquiry.search.state
        column = state.table.label_column(self._key)
        view_rows = state.view.rows()
        there = view_rows[column[view_rows] == state.symbols.find(fewest_in)]
        rows = list(filter(self._counts.is_eligible, there.tolist()))
        going = (
            pod
            for pod in chain.from_iterable(map(self._inquiry.pods_on, rows))
            if pod.metadata.deletion_timestamp is not None and pod.namespace == self._inquiry.pod.namespace
        )
        return rows, sum(map(self._counts.matches, going))

    def _node_texts(self, rows: Sequence[int]) -> Iterator[str]:
        for row in rows[:MOST_NODES]:
            node, says = self._inquiry.node(row), self._inquiry.says(row, PodTopologySpread.name)
            text = node.name + (f": {says[0]}" if says else "")
            tolerations = self._inquiry.state.shape.tolerations
            taint = find_intolerable_taint(node.spec.taints, tolerations, REJECTING_EFFECTS, True)
            is_tainted = taint is not None and not self._honors_taints
            yield text + (", counted by nodeTaintsPolicy Ignore" if is_tainted else "")
        if len(rows) > MOST_NODES:
            yield f"and {len(rows) - MOST_NODES} more nodes"


def _fewest_text(values: Mapping[str, Any]) -> str:
    """Return which domain has the fewest pods, and why that one counts."""
    if values["fewestIn"] is None:
        exist = number_of(values["domains"], "domain exists", "domains exist")
        return f"fewest counts as 0, as only {exist} and minDomains is {values['minDomains']}"
    if values["fewestIn"] == values["value"]:
        return f"fewest {values['fewest']} here"
    others = values["otherFewest"]
    also = f" and {number_of(others, 'other domain', 'other domains')}" if others else ""
    where = values["fewestIn"] or f"{values['topologyKey']}="
    return f"fewest {values['fewest']} in {where}{also}"


def fewest_note(values: Mapping[str, Any]) -> str:
    """Return what keeps a pod off the domain with the fewest pods, of the facts about another domain; "" if
    they name none."""
    texts = (text.partition(": ") for text in values.get("fewestNodes", ()) if " " in text)  # which say why
    alike = grouped((why, node) for node, _, why in texts)
    notes = [" and ".join(nodes) + (why and f": {why}") for why, nodes in alike.items()]
    if values.get("terminating"):
        pods = number_of(values["terminating"], "matching pod", "matching pods")
        notes.append(f"{pods} there being deleted, not counted")
    return f"fewest in {values['topologyKey']}={values['fewestIn']}: {'; '.join(notes)}" if notes else ""


def evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the domains that violate hard constraints, and nodes without labels."""
    plugin = probe.filter_of(PodTopologySpread)
    assert plugin is not None
    constraints = inquiry.state.shape.spread or plugin.default_constraints
    hard = [constraint for constraint in constraints if constraint.when_unsatisfiable == HARD]
    read = inquiry.state.terms.hard_counts()
    spreads = [
        _Spread(inquiry, hard_constraint, *counts) for hard_constraint, counts in zip(hard, read, strict=True)
    ]

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        has_labels = status.reasons == (MISMATCH,)
        yield from distinct_evidence(spread.evidence(rows, has_labels) for spread in spreads)

    return find


FIELDS = {
    "nodeTaintsPolicy": "node_taints_policy",
    "nodeAffinityPolicy": "node_affinity_policy",
    "minDomains": "min_domains",
    "maxSkew": "max_skew",
}
"""Fields of a spread constraint by their names in manifests."""
DEFAULTS = {"nodeTaintsPolicy": "Ignore", "minDomains": 1}


def loosened(probe: Probe, constraint: Spread) -> Iterator[HelpfulChange]:
    """Yield the changes of a single field that place the pod, and that without the constraint."""
    yield from probe.tried(dropped(constraint))
    spread, hard = constraint.spread, hard_spreads(probe.pod.spec)
    state, ran = probe.begin(probe.pod)
    if ran.rejection is not None or spread not in hard:
        return
    counts, own, _, min_domains = state.terms.hard_counts()[hard.index(spread)]
    domains = counts.by_domain()
    if spread.node_taints_policy != "Honor":
        yield from _with_field(probe, constraint, "nodeTaintsPolicy", "Honor")
    if spread.node_affinity_policy == "Ignore":
        yield from _with_field(probe, constraint, "nodeAffinityPolicy", "Honor")
    if 0 < len(domains) < min_domains:
        yield from _with_field(probe, constraint, "minDomains", len(domains))
    yield from _larger_skew(probe, constraint, counts, own)


def _larger_skew(probe: Probe, constraint: Spread, counts: DomainCounts, own: int) -> Iterator[HelpfulChange]:
    """Yield the change to the least maxSkew that places the pod."""
    most = max((pods for pods, _ in counts.by_domain().values()), default=0) + own  # no domain has more
    spread = constraint.spread
    skews = range(most, spread.max_skew, -1)

    def fits(at: int) -> bool:
        changed = replace(spread, max_skew=skews[at])
        return probe.count_feasible(changed_term(probe.pod, SPREADS, spread, changed)) > 0

    if len(skews) and fits(0):
        yield from _with_field(probe, constraint, "maxSkew", skews[largest(len(skews) - 1, fits)])


def _with_field(probe: Probe, constraint: Spread, name: str, value: object) -> Iterator[HelpfulChange]:
    """Yield the change of a field if it places the pod."""
    spread = constraint.spread
    changed = replace(spread, **{FIELDS[name]: value})
    before = str(getattr(spread, FIELDS[name]) or DEFAULTS.get(name, ""))
    text = f"set {name}: {value} (now {before}) in {constraint.text}"
    edit = of_pod(partial(changed_term, path=SPREADS, term=spread, changed=changed))
    values = {"constraint": constraint.named, "field": name, "from": before, "to": str(value)}
    yield from probe.tried(HelpfulChange(Kind.SPREAD, text, (edit,), values=values))
