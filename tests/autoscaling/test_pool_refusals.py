"""Why a pool makes no node for a pod, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage import Scheduler, load
from moorage.autoscalers import AutoscalerSettings, InstanceType, read_instance_types
from tests.doors.autoscalers import Judge
from tests.house.source import ROOT

NO_HELP = "no single change helps"

TYPES = read_instance_types(ROOT / "examples/karpenter/instance_types.yaml")
KIND = "node.kubernetes.io/instance-type"
XLARGE = "m5.xlarge spot us-west-2a, 0.14 $/h more"


def pool(requirements: dict[str, str], labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {"requirements": wanted, "nodeClassRef": reference, "taints": spec.pop("taints", [])}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "pool"},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": template}, **spec},
    }


def asked(of: dict[str, Any], types: list[InstanceType] = TYPES, cpu: str = "3") -> Any:
    """What is told of a pod that needs most of the larger type, on a node with a label."""
    resources = {"requests": {"cpu": cpu, "memory": "9Gi"}}
    spec = {
        "nodeSelector": {"team": "a"},
        "containers": [{"name": "c", "image": "c", "resources": resources}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    scheduler = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": [of, pod]}))
    scheduler.run()
    (refusal,) = Judge(scheduler, AutoscalerSettings(types)).refusals("default/p")
    return refusal


def helps(refusal: Any) -> list[str]:
    return [one.line for one in refusal.changes]


TEAM = {"team": "a"}


@pytest.mark.parametrize(
    ("of", "reason", "remedies"),
    [
        (
            pool({}, TEAM, taints=[{"key": "gpu", "value": "no", "effect": "NoSchedule"}]),
            "did not tolerate taint",
            [f"tolerate gpu=no:NoSchedule ({XLARGE})"],
        ),
        (
            pool({}, {"team": "b"}),
            "incompatible requirements, key team",
            [
                f"add the label team=a to the pool ({XLARGE})",
                f"drop node-selector team=a ({XLARGE})",
            ],
        ),
        (
            pool({"topology.kubernetes.io/zone": "us-west-2b"}, TEAM),
            "nodepool requirements filtered out all available instance types",
            [f"allow topology.kubernetes.io/zone us-west-2a in the pool ({XLARGE})"],
        ),
        (
            pool({}, TEAM, limits={"cpu": "1", "memory": "1Ti"}),
            "all available instance types exceed limits",
            [f"raise the limit of cpu from 1 to 4, enough for this pod alone ({XLARGE})"],
        ),
        (
            pool({KIND: "m6i.large"}, TEAM),
            "no instance type has enough resources",
            [
                "lower the cpu request of container c from 3 to 1900m, and lower the memory request of "
                "container c from 9Gi to 8182Mi (m6i.large spot us-west-2a, 0.067 $/h more)",
                f"allow {KIND} m5.xlarge in the pool ({XLARGE})",
                "a type like m6i.large, but with cpu 3.1, memory 9226Mi",
            ],
        ),
        (pool({}, TEAM, replicas=1), "it makes no nodes for pods", []),
    ],
    ids=["taint", "label", "zone", "limit", "type", "static"],
)
def test_what_would_help_is_told(of: dict[str, Any], reason: str, remedies: list[str]) -> None:
    refusal = asked(of)
    assert reason in refusal.reason
    assert helps(refusal) == remedies
    lines = [*refusal.lines()]
    assert lines[1:] == [f"  would help: {one}" for one in remedies] or lines[1:] == [f"  {NO_HELP}"]


def test_a_smaller_request_is_the_largest_that_fits() -> None:
    refusal = asked(pool({}, TEAM), cpu="30")
    assert helps(refusal)[-1] == f"lower the cpu request of container c from 30 to 3900m ({XLARGE})"
    assert asked(pool({}, TEAM), cpu="3901m").reason != ""
    with pytest.raises(ValueError, match="not enough values"):
        asked(pool({}, TEAM), cpu="3900m")  # the pod has a node then


def test_offerings_that_are_not_available_are_told() -> None:
    gone = [
        replace(one, offerings=tuple(replace(each, available=False) for each in one.offerings))
        for one in TYPES
    ]
    assert helps(asked(pool({}, TEAM), gone)) == [f"wait for offerings that are not available ({XLARGE})"]
    assert asked(pool({}, TEAM), []).reason == "it has no instance types"
