"""The domains that pools could make nodes in, and the taints that these would have.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topology.go (buildDomainGroups) and
topologydomaingroup.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from moorage.kube import Taint

from ..pods.pod_shape import PodShape
from ..requirements.requirement import Requirement, bits
from ..requirements.requirement_set import RequirementSet

Taints = tuple[Taint, ...]


class DomainUniverse:
    """Domains by key, with the lists of taints of the pools that have them."""

    def __init__(self) -> None:
        self._domains: dict[str, dict[int, set[Taints]]] = {}

    def add(self, pool: RequirementSet, taints: Taints, types: Iterable[RequirementSet]) -> None:
        """Add the domains of a pool with these instance types.

        Parameters
        ----------
        pool : RequirementSet
            Requirements and labels of its template.
        """
        seen: set[Requirement | tuple[str, None]] = set()
        for of_type in types:
            for name in {**pool.by_key, **of_type.by_key}:
                theirs, ours = of_type.by_key.get(name), pool.by_key.get(name)
                mark = theirs or (name, None)
                if mark in seen:
                    continue
                seen.add(mark)
                both = theirs if ours is None else ours if theirs is None else ours.meet(theirs)
                assert both is not None
                self._insert(name, both.mask, taints)
        for name, requirement in pool.by_key.items():
            if requirement.operator == "In":
                self._insert(name, requirement.mask, taints)

    def _insert(self, name: str, mask: int, taints: Taints) -> None:
        domains = self._domains.setdefault(name, {})
        for place in bits(mask):
            domains.setdefault(place, set()).add(taints)

    def domains(self, name: str, shape: PodShape, honors: bool) -> int:
        """The domains of a key as bits; with `honors` those of pools whose taints pods tolerate."""
        found = 0
        for place, lists in self._domains.get(name, {}).items():
            if not honors or any(not shape.taint_refusal(taints) for taints in lists):
                found |= 1 << place
        return found
