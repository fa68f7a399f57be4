"""`ClaimMatcher` finds on every node what a search through all volumes finds."""

from __future__ import annotations

from collections.abc import Container

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace
from tests.doors.engine import ClaimMatcher, reaches_node, suitable_volumes
from tests.volume.binding.binder_kit import UNBOUND, volume

from moorage.objects import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)

values = st.sampled_from(["1", "2", "3"])
labels = st.dictionaries(st.sampled_from(["zone", "host"]), values)
requirements = st.builds(
    lambda key, operator, some: NodeSelectorRequirement(
        key=key, operator=operator, values=tuple(some) if operator.endswith("n") else ()
    ),
    st.sampled_from(["zone", "host"]),
    st.sampled_from(["In", "In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(values, min_size=1, max_size=2),
)
terms = st.builds(
    lambda some: NodeSelectorTerm(match_expressions=tuple(some)), st.lists(requirements, max_size=2)
)
affinities = st.none() | st.builds(
    lambda some: VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(some))),
    st.lists(terms, min_size=1, max_size=2),
)
references = st.none() | st.sampled_from([
    ObjectReference(namespace="testns", name="unbound-pvc"),
    ObjectReference(namespace="testns", name="unbound-pvc", uid="pvc-uid"),
    ObjectReference(namespace="testns", name="another"),
])  # fmt: skip


@st.composite
def volumes(draw: st.DrawFn) -> list[PersistentVolume]:
    made = []
    for place in range(draw(st.integers(0, 8))):
        one = volume(f"pv{place}", draw(st.sampled_from(["1M", "1G", "2G", "3G"])))
        bound = draw(references) if draw(st.integers(0, 4)) == 0 else None
        phase = draw(st.sampled_from(["Available", "Available", "Available", "Released"]))
        spec = replace(one.spec, claim_ref=bound, node_affinity=draw(affinities))
        made.append(replace(one, spec=spec, status=PersistentVolumeStatus(phase=phase)))
    return made


def search(
    held: list[PersistentVolume], labels: dict[str, str], excluded: Container[str]
) -> PersistentVolume | None:
    """As FindMatchingVolume: the first that was bound beforehand, else the first of the smallest."""
    best, best_size = None, 0
    for one, size, was_bound in suitable_volumes(UNBOUND, held):
        if one.name in excluded:
            continue
        if was_bound:
            return one if reaches_node(one, labels) else None
        if (best is None or size < best_size) and reaches_node(one, labels):
            best, best_size = one, size
    return best


@settings(deadline=None)
@given(volumes(), st.lists(labels, min_size=1, max_size=3), st.sets(st.integers(0, 7)))
def test_the_same_volume(held: list[PersistentVolume], nodes: list[dict[str, str]], taken: set[int]) -> None:
    matcher, excluded = ClaimMatcher(UNBOUND, held), {f"pv{place}" for place in taken}
    for its in nodes:
        assert matcher.find(its, excluded) is search(held, its, excluded)
