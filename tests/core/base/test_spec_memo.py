"""What is known of a spec is limited, and pods whose specs are alike still differ where they may."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import SpecMemo

from moorage.errors import InputError
from moorage.kube import (
    Container,
    LabelSelector,
    ObjectMeta,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    PriorityClass,
    TopologySpreadConstraint,
    Volume,
    build_cluster,
    validate,
)

SPEC = PodSpec(containers=(Container(name="c"),), volumes=(Volume(name="token-a"),), node_name="a")


@pytest.fixture
def memo() -> SpecMemo:
    memo = SpecMemo()
    memo.put(SPEC, "known")
    return memo


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
