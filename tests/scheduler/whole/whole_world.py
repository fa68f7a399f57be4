"""What the machine over the whole scheduler creates, and what the store must say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.core.make import pinned
from tests.make import ZONE, port
from tests.scheduler.whole.whole_twin import FINISHED

from moorage.kube import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)

NODE_NAMES = st.sampled_from(["a", "b", "c"])
APPS = st.sampled_from("xy")
PICK = st.integers(0, 11)
TOLD = st.sampled_from([True, True, False])
MOST = 12
PDB = "budget"


def term(app: str, key: str = ZONE) -> PodAffinityTerm:
    return PodAffinityTerm(label_selector=LabelSelector({"app": app}), topology_key=key)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "beside x": {"affinity": Affinity(pod_affinity=PodAffinity(required=(term("x"),)))},
    "not by y": {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=(term("y"),)))},
    "spread": {
        "topology_spread_constraints": (
            TopologySpreadConstraint(
                max_skew=1,
                topology_key=ZONE,
                when_unsatisfiable="DoNotSchedule",
                label_selector=LabelSelector({"app": "x"}),
            ),
        )
    },
    "port": {"ports": [port(80)]},
    "zone": {"node_selector": {ZONE: "z1"}},
    "pinned": {"affinity": pinned("a")},
    "tolerant": {"tolerations": (Toleration(key="taint", operator="Exists"),)},
    "never": {"preemption_policy": "Never"},
    "gated": {"scheduling_gates": (PodSchedulingGate("wait"),)},
    "other": {"scheduler_name": "other"},
}
PODS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["plain", "plain", "plain", *KINDS]),
        "cpu": st.integers(0, 3),
        "priority": st.sampled_from([0, 0, 5, 9]),
        "app": APPS,
        "kept": st.sampled_from([False, False, True]),
        "on": st.sampled_from(["", "", "", "a", "b"]),
    }
)
NODES = st.fixed_dictionaries(
    {
        "cpu": st.integers(2, 5),
        "pods": st.sampled_from([3, 10]),
        "zone": st.sampled_from(["z1", "z2", ""]),
        "tainted": st.sampled_from([False, False, True]),
        "unschedulable": st.sampled_from([False, False, False, True]),
    }
)


@dataclass
class Stored:
    """What the store must say of a pod."""

    uid: str
    on: str
    app: str
    cpu: int
    kept: bool  # by a finalizer
    gated: bool
    is_ending: bool = False
    is_finished: bool = False

    @classmethod
    def of(cls, one: Pod) -> Stored:
        meta = one.metadata
        return cls(
            meta.uid,
            one.spec.node_name,
            meta.labels["app"],
            int(one.spec.containers[0].resources.requests["cpu"]),
            bool(meta.finalizers),
            bool(one.spec.scheduling_gates),
            meta.deletion_timestamp is not None,
            one.status.phase in FINISHED,
        )
