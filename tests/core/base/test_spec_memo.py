"""SpecMemo: specs of one template share a value, other specs do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import SpecMemo

from moorage.errors import InputError
from moorage.kube import (
    Container,
    ImageVolumeSource,
    LabelSelector,
    ObjectMeta,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    PriorityClass,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    build_cluster,
    validate,
)

SPEC = PodSpec(containers=(Container(name="c"),), volumes=(Volume(name="token-a"),), node_name="a")
CLAIM = PersistentVolumeClaimVolumeSource(claim_name="c")


@pytest.fixture
def memo() -> SpecMemo:
    memo = SpecMemo()
    memo.put(SPEC, "known")
    return memo


@pytest.mark.parametrize("changes", [{}, {"node_name": "b"}, {"volumes": (Volume(name="token-b"),)}])
def test_specs_of_one_template_are_alike(changes: dict[str, Any], memo: SpecMemo) -> None:
    assert memo.get(replace(SPEC, **changes)) == "known"


@pytest.mark.parametrize(
    "changes",
    [
        {"containers": (Container(name="d"),)},
        {"tolerations": (Toleration(key="k"),)},
        {"priority": 1},
        {"volumes": ()},
        {"volumes": (Volume(name="token-a", persistent_volume_claim=CLAIM),)},
        {"volumes": (Volume(name="token-a", image=ImageVolumeSource(reference="r")),)},
        {"volumes": (Volume(name="token-a"), Volume(name="b"))},
    ],
)
def test_other_specs_are_not(changes: dict[str, Any], memo: SpecMemo) -> None:
    assert memo.get(replace(SPEC, **changes)) is None


def test_volumes_may_differ_in_what_is_not_read() -> None:
    memo = SpecMemo("persistent_volume_claim")
    memo.put(SPEC, "known")
    other = replace(CLAIM, claim_name="d")
    for claim in (CLAIM, other, None):
        volume = Volume(name="token-a", persistent_volume_claim=claim)
        assert memo.get(replace(SPEC, volumes=(volume,))) == "known"
        image = replace(volume, image=ImageVolumeSource(reference="r"))
        assert memo.get(replace(SPEC, volumes=(image,))) is None
        assert memo.get(replace(SPEC, volumes=(volume, volume))) is None


def test_specs_of_several_templates_in_turn(memo: SpecMemo) -> None:
    others = [replace(SPEC, priority=number) for number in (1, 2)]
    for number, other in enumerate(others):
        memo.put(other, number)
    specs = [(SPEC, "known"), *zip(others, range(2), strict=True)]
    for spec, value in [*specs, *specs[::-1], *specs]:
        assert memo.get(replace(spec, node_name="b")) == value
        assert memo.get(replace(spec, priority=9)) is None
    memo.put(replace(SPEC, node_name="c"), "new")
    assert memo.get(SPEC) == "new"


def test_specs_with_the_same_containers_have_values_of_their_own(memo: SpecMemo) -> None:
    other = replace(SPEC, priority=5)
    memo.put(other, "other")
    assert (memo.get(other), memo.get(SPEC)) == ("other", "known")


def test_the_memo_is_limited(memo: SpecMemo) -> None:
    specs = [PodSpec(containers=(Container(name=str(at)),)) for at in range(1 << 12)]
    for spec in specs:
        memo.put(spec, spec)
    assert memo.get(SPEC) is None
    assert memo.get(specs[-1]) is specs[-1]


def test_each_spec_is_validated_that_differs_in_more() -> None:
    good = Pod(metadata=ObjectMeta(name="p"), spec=SPEC)
    bad = replace(SPEC, volumes=(Volume(persistent_volume_claim=PersistentVolumeClaimVolumeSource()),))
    validate(good)
    for _ in range(2):
        with pytest.raises(InputError, match=r"volumes\[0\].persistentVolumeClaim.claimName: Required value"):
            validate(replace(good, spec=bad))


def test_defaults_follow_node_classes_and_labels() -> None:
    """Each cluster has priority classes of its own, and pods without a node get more tolerations."""
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(),
        match_label_keys=("v",),
    )
    spec = replace(SPEC, topology_spread_constraints=(constraint,))
    for value in (5, 7):
        default = PriorityClass(metadata=ObjectMeta(name="d"), value=value, global_default=True)
        pods = [
            Pod(metadata=ObjectMeta(name=f"p{at}", labels={"v": str(at)}), spec=replace(spec, node_name=node))
            for at, node in enumerate(("a", "", "b", ""))
        ]
        cluster = build_cluster([default, *pods])
        assert [pod.spec.priority for pod in cluster.pods] == [value] * 4
        assert [len(pod.spec.tolerations) for pod in cluster.pods] == [0, 2, 0, 2]
        selectors = [pod.spec.topology_spread_constraints[0].label_selector for pod in cluster.pods]
        assert [one and one.match_expressions[0].values for one in selectors] == [
            ("0",),
            ("1",),
            ("2",),
            ("3",),
        ]
