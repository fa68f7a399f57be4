"""PodTopologySpread and InterPodAffinity in numpy; see `plugin_twins`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from bench.plugin_pods import HOSTNAME, ZONE
from bench.twins.numpy_twin import NumpyTwin, Totals
from bench.twins.plugin_twins import (
    NEVER_HERE,
    NONE,
    Nodes,
    Positions,
    Scores,
    Twin,
    Verdicts,
)

from moorage.kube import Pod


class HardSpread(Twin):
    """One constraint that every node has the label of and every node counts in."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        (constraint,) = pod.spec.topology_spread_constraints
        self.max_skew = constraint.max_skew
        self.domain = nodes.domains(constraint.topology_key)
        self.counts = nodes.count(self.domain, lambda other: _alike(pod, other))

    def filter(self) -> Verdicts:
        skew = self.counts + (1 - self.counts.min())
        return (skew > self.max_skew).astype(np.uint64)[self.domain]

    def add(self, at: int) -> None:
        self.counts[self.domain[at]] += 1


class SoftSpread(Twin):
    """Constraints over zones and hosts, in the order given: key, maxSkew."""

    order = ((ZONE, 1), (HOSTNAME, 1))

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        self.constraints = []
        for key, max_skew in self.order:
            domain = nodes.domains(key)
            counts = nodes.count(domain, lambda other: _alike(pod, other))
            self.constraints.append((key, max_skew, domain, counts))

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        total = np.zeros(len(at))
        for key, max_skew, domain, counts in self.constraints:
            of = domain[at]
            size = len(at) if key == HOSTNAME else np.count_nonzero(np.bincount(of))
            total += (counts * math.log(size + 2) + (max_skew - 1))[of]
        total += 0.5
        raw = total.astype(np.int64)
        least, most = raw.min(), raw.max()
        return raw, 100 * (most + least - raw) // most if most else np.full(len(raw), 100)

    def add(self, at: int) -> None:
        for _, _, domain, counts in self.constraints:
            counts[domain[at]] += 1


class SystemSpread(SoftSpread):
    order = ((HOSTNAME, 3), (ZONE, 5))


def _alike(pod: Pod, other: Pod) -> bool:
    return other.metadata.labels["app"] == pod.metadata.labels["app"]


class RequiredAffinity(Twin):
    """Affinity to its own kind over zones, anti-affinity to it over hosts."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        self.zone, self.host = nodes.domains(ZONE), nodes.domains(HOSTNAME)
        self.in_zone = nodes.count(self.zone, lambda other: _alike(pod, other))
        self.on_host = nodes.count(self.host, lambda other: _alike(pod, other))

    def filter(self) -> Verdicts:
        out = np.where(self.on_host > 0, np.uint64(2), NONE)[self.host]
        if self.in_zone.any():  # else the first of its kind
            out[(self.in_zone == 0)[self.zone]] = NEVER_HERE
        return out

    def add(self, at: int) -> None:
        self.in_zone[self.zone[at]] += 1
        self.on_host[self.host[at]] += 1


class RequiredAntiAffinity(Twin):
    """Not on a host with its own kind."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        self.host = nodes.domains(HOSTNAME)
        self.on_host = nodes.count(self.host, lambda other: _alike(pod, other))

    def filter(self) -> Verdicts:
        return np.where(self.on_host > 0, np.uint64(2), NONE)[self.host]

    def add(self, at: int) -> None:
        self.on_host[self.host[at]] += 1


class WeighedTerms(Twin):
    """Terms that score: weight, topology key, and what the pods are like that count."""

    def score_terms(self, nodes: Nodes, *terms: tuple[int, str, Callable[[Pod], bool]]) -> None:
        self.terms = []
        for weight, key, matches in terms:
            domain = nodes.domains(key)
            self.terms.append((weight, domain, nodes.count(domain, matches)))

    def score(self, at: Positions) -> tuple[Scores, Scores]:
        raw = np.zeros(len(at), dtype=np.int64)
        for weight, domain, counts in self.terms:
            raw += (weight * counts)[domain][at]
        least, most = raw.min(), raw.max()
        if least == most:
            return raw, np.zeros(len(at), dtype=np.int64)
        x = (raw - least) / float(most - least)
        x *= 100.0
        return raw, x.astype(np.int64)

    def add(self, at: int) -> None:
        for _, domain, counts in self.terms:
            counts[domain[at]] += 1


class PreferredAffinity(WeighedTerms):
    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        def kin(other: Pod) -> bool:
            return _alike(pod, other)

        self.score_terms(nodes, (50, ZONE, kin), (-100, HOSTNAME, kin))


class TermsOfKin(WeighedTerms):
    """The required affinity of those that have one, with weight 1."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        self.score_terms(nodes, (1, ZONE, lambda other: other.spec.affinity is not None))


class TermsOfOthers(WeighedTerms):
    """Anti-affinity of pods there, their preferred terms, and their required ones with weight 1."""

    def __init__(self, nodes: Nodes, pod: Pod) -> None:
        def has(which: str, form: str) -> Callable[[Pod], bool]:
            return lambda other: bool(getattr(getattr(other.spec.affinity, which, None), form, ()))

        self.host = nodes.domains(HOSTNAME)
        self.against = nodes.count(self.host, has("pod_anti_affinity", "required"))
        preferring, needing = has("pod_affinity", "preferred"), has("pod_affinity", "required")
        self.score_terms(nodes, (10, HOSTNAME, preferring), (1, ZONE, needing))

    def filter(self) -> Verdicts:
        return np.where(self.against > 0, np.uint64(4), NONE)[self.host]

    def add(self, at: int) -> None:
        """It has no terms."""


class TermBatch:
    """Equal pods, one after the other: what depends on the node alone is kept, what the plugin of the terms
    answers is computed for each pod from counts that are kept."""

    WEIGHT = 2  # of PodTopologySpread and of InterPodAffinity

    def __init__(self, local: NumpyTwin, filters: Sequence[Twin], scores: Sequence[Twin]) -> None:
        self.local, self.filters, self.scores = local, filters, scores

    def place_run(self, n: int, wanted: int) -> list[int]:
        local = self.local
        total, placed = local.scan().copy(), []
        for _ in range(n):
            found = total
            for twin in self.filters:
                found = found * (twin.filter() == 0)
            at = self.choose(found, wanted)
            local.add(at)
            total[at] = local.score(at)
            for twin in (*self.filters, *self.scores):
                twin.add(at)
            placed.append(at)
        return placed

    def choose(self, found: Totals, wanted: int) -> int:
        if not self.scores:
            return self.local.choose(found, wanted)
        window = self.local.window(found, wanted)
        totals = found[window].astype(np.int64)
        for twin in self.scores:
            totals += self.WEIGHT * twin.score(window)[1]
        return int(window[totals.argmax()])
