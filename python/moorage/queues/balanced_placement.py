"""Pods that are spread evenly over the domains of a topology (Kueue v0.17, the feature gate
TASBalancedPlacement, pkg/cache/scheduler/tas_balanced_placement.go)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2

from moorage.lazy import NamedTuple

from .topology_domains import Domain, NoPlacementError, PlacementSearch, sum_up

_PREFIX = "TAS Balanced Placement:"


class _Greedy(NamedTuple):
    """How many of some domains hold all slices, and the last of them beside a leader and without one."""

    domains: int
    last_beside: Domain | None
    last: Domain | None

    def threshold(self, slices: int) -> int:
        """Return the greatest least number of slices that each of so many domains can get."""
        ends = [each.slices_beside for each in (self.last_beside, self.last) if each is not None]
        return min([slices // self.domains, *ends])


def _greedy(search: PlacementSearch, domains: Iterable[Domain]) -> _Greedy | None:
    slices, leaders = search.count // search.size, search.leaders
    ordered, number = list(domains), 0
    last_beside = last = None
    if leaders:
        ordered = search.sorted_beside(ordered)
        while leaders > 0 and number < len(ordered) and ordered[number].leaders > 0:
            last_beside = ordered[number]
            leaders -= last_beside.leaders
            slices -= last_beside.slices_beside
            number += 1
    if leaders > 0:
        return None
    for domain in search.sorted(ordered[number:]):
        if slices <= 0 or domain.slices <= 0:
            break
        number += 1
        last = domain
        slices -= domain.slices
    return _Greedy(number, last_beside, last) if slices <= 0 and number else None


def _clear(domain: Domain) -> None:
    domain.clear()
    for child in domain.children:
        _clear(child)


def _prune(search: PlacementSearch, domains: Iterable[Domain], threshold: int) -> None:
    """Leave out domains that hold less than a number of slices."""
    for child in [child for domain in domains for child in domain.children]:
        if child.slices_beside < threshold:
            _clear(child)
    for domain in domains:
        sum_up(domain, search.size, search.slice_level, search.level)
        if domain.slices_beside < threshold:
            _clear(domain)


def balanced_domains(
    search: PlacementSearch, levels: Sequence[dict[tuple[str, ...], Domain]]
) -> tuple[int, list[Domain]] | None:
    """Return a level and domains of it with the pods that each gets; None if they cannot be balanced.

    Raises
    ------
    NoPlacementError
        A balance was seen and not reached.
    """
    slices = search.count // search.size
    families = [list(levels[0].values())]
    if search.level:
        families = [parent.children for _, parent in sorted(levels[search.level - 1].items())]
    best, threshold, fewest = list[Domain](), 0, 0
    for siblings in families:
        lower = siblings
        if search.level < search.slice_level:
            lower = [child for domain in siblings for child in domain.children]
        greedy = _greedy(search, lower)
        if greedy is None or (own := greedy.threshold(slices)) < threshold:
            continue
        _prune(search, siblings, own)
        again = _greedy(search, siblings)
        number = again.domains if again is not None else 0
        if own > threshold or number < fewest:
            best, threshold, fewest = siblings, own, number
    if threshold <= 0:
        return None
    level = search.level
    if level < search.slice_level:
        best = sorted(best, key=lambda each: (-each.leaders, -each.slices_beside, -_entropy(each)))
        chosen = _optimal(search, best)
        best, level = [child for domain in chosen for child in domain.children], level + 1
    return level, _share_out(search, _optimal(search, best), threshold)


def _entropy(domain: Domain) -> float:
    sizes = [child.pods for child in domain.children if child.pods > 0]
    return sum([-size / sum(sizes) * log2(size / sum(sizes)) for size in sizes], 0.0)


def _optimal(search: PlacementSearch, domains: list[Domain]) -> list[Domain]:
    """Return the fewest domains that hold all pods, and of these with the least room, by dynamic programming:
    by leaders and pods that are left, the first domains that leave so many."""
    greedy = _greedy(search, domains)
    if greedy is None:
        raise NoPlacementError(f"{_PREFIX} Cannot find optimal domain set to fit the request")
    pods = search.count // search.size * search.size
    table: list[dict[tuple[int, int], list[Domain]]] = [{} for _ in range(greedy.domains + 1)]
    table[0][search.leaders, pods] = []
    for domain in domains:
        for number in range(greedy.domains, 0, -1):
            for (leaders, rest), placed in sorted(table[number - 1].items(), key=lambda item: item[0]):
                if leaders <= 0 and rest <= 0:
                    continue
                if leaders > 0 and domain.leaders > 0:
                    left = leaders - domain.leaders, rest - domain.pods_beside
                    table[number].setdefault(left, [*placed, domain])
                if domain.slices > 0:
                    table[number].setdefault((leaders, rest - domain.pods), [*placed, domain])
    ends = [rest for leaders, rest in table[-1] if leaders == 0 and rest <= 0]
    if not ends:
        raise NoPlacementError(f"{_PREFIX} Cannot find optimal domain set to fit the request")
    return table[-1][0, max(ends)]


def _share_out(search: PlacementSearch, domains: list[Domain], threshold: int) -> list[Domain]:
    """Give each domain as many slices as all get, and the rest to the first."""
    extra, leaders = search.count // search.size - len(domains) * threshold, search.leaders
    if extra < 0:
        raise NoPlacementError(f"{_PREFIX} Not enough slices to meet the threshold")
    domains = search.sorted_beside(domains)
    for domain in domains:
        more = 0
        if leaders > 0:
            more = min(domain.slices_beside - threshold, extra)
        elif extra > 0:
            more = min(domain.slices - threshold, extra)
        domain.leaders = int(leaders > 0)
        leaders -= domain.leaders
        domain.slices = domain.slices_beside = threshold + more
        domain.pods = domain.slices * search.size
        domain.pods_beside = domain.pods - domain.leaders
        extra -= more
    if extra > 0 or leaders > 0:
        raise NoPlacementError(f"{_PREFIX} Not all slices or leaders could be placed")
    return domains
