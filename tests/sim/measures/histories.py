"""Made histories, and the state of a history at a moment, told from its rows one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import moorage as mo
from moorage import Timeline
from moorage.kube import decode_object
from tests.doors.sim import allocatable_of, requests_of
from tests.sim.policies.test_gpu_share import MODEL_LABEL, node, pod

ZONE = "topology.kubernetes.io/zone"
TYPE = "node.kubernetes.io/instance-type"


def zoned(name: str, gpus: int, zone: str, cpu: str = "8") -> Any:
    """A node of two models: those in zone a are of one, the others of another."""
    made = node(name, gpus, cpu=cpu)
    made["metadata"]["labels"] |= {ZONE: zone, TYPE: f"type-{zone}", MODEL_LABEL: f"model-{zone}"}
    return decode_object(made)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Nodes that come, change and go, and pods that come and go, some of them at the same time."""
    made = Timeline()
    times = st.integers(0, 20)
    for at in range(draw(st.integers(1, 3))):
        name = f"n{at}"
        made.create(
            draw(st.integers(0, 2)), zoned(name, draw(st.integers(0, 3)), draw(st.sampled_from("ab")))
        )
        if draw(st.booleans()):
            verb = draw(st.sampled_from(["cordon", "leave", "drain"]))
            getattr(made, verb)(draw(st.integers(3, 20)), name)
    for at in range(draw(st.integers(0, 8))):
        cpu, milli = (
            draw(st.sampled_from(["500m", "2", "5"])),
            draw(st.sampled_from([0, 300, 700, 1000, 2000])),
        )
        shape = pod(f"p{at}", milli, cpu=cpu)
        if priority := draw(st.sampled_from([0, 0, 10])):
            shape["spec"]["priority"] = priority
        time = draw(times)
        made.create(time, decode_object(shape))
        if draw(st.booleans()):
            made.delete(time + draw(st.integers(0, 10)), f"pod/p{at}")
    made.measure(30, "end")
    return made


@dataclass
class State:
    """Nodes by name, and (number, pod) of those on each, at a moment."""

    nodes: dict[str, mo.History] = field(default_factory=dict)
    pods: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)

    def free(self, name: str, resource: str) -> int:
        used = sum(
            1 if resource == "pods" else requests_of(one).get(resource, 0)
            for _, one in self.pods.get(name, [])
        )
        return max(allocatable_of(resource, self.nodes[name]) - used, 0)  # type: ignore[arg-type]


def state_at(history: mo.History, time: float) -> State:
    """Return the state after everything that has happened at a time."""
    out = State()
    log = history.node_columns
    for when, number, state in zip(*(log[name].tolist() for name in ("time", "node", "state")), strict=True):
        if when <= time:
            name = history.node_names[number]
            out.nodes.pop(name, None)
            if state >= 0:
                out.nodes[name] = history.node_objects[state]  # type: ignore[assignment]
    pods = history.pod_columns
    names = ("node", "bound", "ended", "template")
    for number, (at, bound, ended, template) in enumerate(
        zip(*(pods[name].tolist() for name in names), strict=True)
    ):
        if at >= 0 and bound <= time < ended:
            shape = history.templates[template]
            out.pods.setdefault(history.node_names[at], []).append((number, shape))
    return out


def moments(history: mo.History) -> list[float]:
    """Return the times at which nodes change, pods are bound or end on nodes."""
    pods = history.pod_columns
    is_placed = pods["node"] >= 0
    ended = pods["ended"][is_placed]
    times = {*history.node_columns["time"].tolist(), *pods["bound"][is_placed].tolist()}
    return sorted(times | {time for time in ended.tolist() if time < float("inf")})
