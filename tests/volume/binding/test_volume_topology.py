"""Which nodes volumes reach, for all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.engine import node_masks, pod_matches_node_selector, reaches_node, volume_topology
from tests.make import node
from tests.words import MIGRATED_PLUGINS

from moorage import Scheduler
from moorage.kube import (
    Affinity,
    Cluster,
    CSINode,
    DiskVolumeSource,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    PodSpec,
    VolumeNodeAffinity,
)

KEYS = ("a", "b", "not a key")
VALUES = ("x", "y", "", "1", "2", "007", "-5", "9223372036854775807", "9223372036854775808", "no value!")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like", "")


def volume(*terms: NodeSelectorTerm) -> PersistentVolume:
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    return PersistentVolume(metadata=ObjectMeta(name="v"), spec=PersistentVolumeSpec(node_affinity=affinity))


def wants(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions: NodeSelectorRequirement, fields: Any = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=expressions, match_fields=tuple(fields))


requirements = st.builds(
    wants, st.sampled_from(KEYS), st.sampled_from(OPERATORS), *[st.sampled_from(VALUES)]
) | st.builds(
    lambda key, operator, values: wants(key, operator, *values),
    st.sampled_from(KEYS[:2]),
    st.sampled_from(OPERATORS[:6]),
    st.lists(st.sampled_from(VALUES[:8]), max_size=2),
)
of_fields = st.builds(
    wants, st.sampled_from(["metadata.name", "other"]), st.sampled_from(["In", "NotIn", "Gt"]), st.just("n0")
)
terms = st.builds(
    lambda expressions, fields: term(*expressions, fields=fields),
    st.lists(requirements, max_size=3),
    st.lists(of_fields, max_size=1),
)
volumes = st.lists(terms, max_size=3).map(lambda found: volume(*found))
labels = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES[:9]))
STEPS: st.SearchStrategy[tuple[str, int, dict[str, str]]] = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 4), labels),
    st.tuples(st.just("remove"), st.integers(0, 4), st.just({})),
    st.tuples(st.just("thought"), st.integers(0, 4), labels),
)


def check(one: Scheduler, reach: volume_topology.VolumeTopology, asked: list[PersistentVolume]) -> None:
    """Every row with a node, against the node's own labels; a pod may also ask for names."""
    rows, masks = one.context.view_rows().tolist(), one.handle.derived(node_masks.NodeMasks.of)
    for volume in asked:
        mask, affinity = reach.mask(volume), volume.spec.node_affinity
        assert affinity is not None
        assert affinity.required is not None
        selected = masks.selected(affinity.required)
        wanting = PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required=affinity.required)))
        for row in rows:
            info = one.cache.node_info(one.table.row_name(row))
            assert info is not None
            assert info.node is not None
            expected = reaches_node(volume, info.node.metadata.labels)
            assert (True if mask is None else mask[row]) == expected, info.name
            assert selected[row] == pod_matches_node_selector(wanting, info.node), info.name


@settings(deadline=None, max_examples=150)
@given(
    nodes=st.lists(labels, max_size=4),
    asked=st.lists(volumes, min_size=1, max_size=3),
    steps=st.lists(STEPS, max_size=5),
)
def test_all_rows_are_row_by_row(nodes: Any, asked: Any, steps: Any) -> None:
    """After nodes have come, gone and got other labels too, for good or in thought."""
    one = Scheduler(Cluster(nodes=[node(f"n{at}", labels=found) for at, found in enumerate(nodes)]))
    reach = volume_topology.VolumeTopology.of(one.handle)
    check(one, reach, asked)
    there = {f"n{at}" for at in range(len(nodes))}
    for action, at, found in steps:
        name = f"n{at}"
        changed = node(name, labels=found)
        if action == "thought":
            with one.cache.transaction():
                one.cache.state.set_node(changed)
                check(one, reach, asked)
        elif action == "set":
            (one.client.update if name in there else one.client.create)(changed)
            there.add(name)
        elif name in there:
            one.client.delete("Node", name)
            there.remove(name)
        one.sync()
        check(one, reach, asked)


def test_volumes_that_reach_all_nodes() -> None:
    reach = volume_topology.VolumeTopology.of(Scheduler(Cluster(nodes=[node("n")])).handle)
    anywhere = PersistentVolume(metadata=ObjectMeta(name="v"))
    assert reach.mask(anywhere) is None
    spec = PersistentVolumeSpec(node_affinity=VolumeNodeAffinity())
    assert reach.mask(PersistentVolume(metadata=ObjectMeta(name="v"), spec=spec)) is None


@pytest.mark.parametrize(
    ("of_term", "reached"),
    [
        (term(wants("a", "In", "x", "unheard-of")), [True, False, False]),
        (term(wants("a", "NotIn", "x"), wants("b", "Gt", "1")), [False, True, False]),
        (term(wants("a", "In", "x"), fields=[wants("metadata.name", "In", "z")]), [True, False, False]),
        (term(fields=[wants("metadata.name", "In", "z")]), [True, True, True]),  # fields are not asked for
        (term(), [False, False, False]),
        (term(wants("a", "In")), [False, False, False]),
        (term(wants("a", "Like", "x")), [False, False, False]),
    ],
)
def test_each_operator_of_a_term_reaches_the_nodes_that_match(
    of_term: NodeSelectorTerm, reached: list[bool]
) -> None:
    nodes = [node("l", labels={"a": "x", "b": "1"}), node("m", labels={"a": "", "b": "2"}), node("n")]
    one = Scheduler(Cluster(nodes=nodes))
    reach = volume_topology.VolumeTopology.of(one.handle)

    def names(*terms: NodeSelectorTerm) -> list[bool]:
        mask = reach.mask(volume(*terms))
        assert mask is not None
        at = {one.table.row_name(row): bool(mask[row]) for row in one.context.view_rows().tolist()}
        return [at[name] for name in "lmn"]

    assert names(of_term) == reached
    assert names(term(), of_term) == reached  # one term that can be read is enough
    assert names() == [False, False, False]


def test_masks_are_remembered_while_nodes_stay_as_they_are() -> None:
    one = Scheduler(Cluster(nodes=[node("n", labels={"a": "x"})]))
    reach = volume_topology.VolumeTopology.of(one.handle)
    asked = [volume(term(wants("a", "In", value))) for value in "xyz"]
    first = reach.mask(asked[0])
    assert reach.mask(asked[0]) is first
    one.client.update(node("n", labels={"a": "y"}))
    one.sync()
    assert reach.mask(asked[0]) is not first
    limit = node_masks.LIMIT
    for at in range(limit):
        assert not np.any(reach.mask(volume(term(wants("a", "In", f"other-{at}")))))
    masks = [reach.mask(each) for each in asked * 2]
    assert [mask is not None and bool(np.any(mask)) for mask in masks] == [False, True, False] * 2
    assert len(vars(one.handle.derived(node_masks.NodeMasks.of))["_masks"]) <= limit


ZONES = ("topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone")


def test_replaced_volumes_are_where_the_driver_of_a_node_says() -> None:
    """Their nodes have the label of the driver alone, the others that of Kubernetes."""
    nodes = [node("old", labels={ZONES[0]: "a"}), node("new", labels={ZONES[1]: "a"})]
    nodes += [node("far", labels={ZONES[1]: "b"}), node("bare")]
    migrated = {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"}
    csi_nodes = [CSINode(metadata=ObjectMeta(name=name, annotations=migrated)) for name in ("new", "far")]
    made = Scheduler(Cluster(nodes=nodes, others=list(csi_nodes)))
    topology = made.handle.derived(volume_topology.VolumeTopology.of)
    required = NodeSelector(node_selector_terms=(term(wants(ZONES[0], "In", "a")),))
    disk = DiskVolumeSource(volume_id="vol-1")
    there = PersistentVolumeSpec(
        aws_elastic_block_store=disk, node_affinity=VolumeNodeAffinity(required=required)
    )
    labelled = PersistentVolume(
        metadata=ObjectMeta(name="v", labels={ZONES[0]: "a"}),
        spec=PersistentVolumeSpec(aws_elastic_block_store=disk),
    )

    def reached(one: PersistentVolume) -> list[str]:
        mask = topology.mask(one)
        names = [each.name for each in nodes]
        rows = [made.cache.state.table.find_row(name) for name in names]
        return [name for name, row in zip(names, rows, strict=True) if mask is None or mask[row]]

    bound = PersistentVolume(metadata=ObjectMeta(name="v"), spec=there)
    assert (reached(bound), reached(labelled)) == (["old", "new"], ["old", "new", "bare"])
    made.client.update(CSINode(metadata=ObjectMeta(name="new")))
    made.sync()
    assert (reached(bound), reached(labelled)) == (["old"], ["old", "new", "bare"])
    made.client.delete("CSINode", "far")
    made.sync()
    assert reached(labelled) == ["old", "new", "far", "bare"]
