"""What filters say of a node as it would be: the same as if it were so, and nothing of it stays."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.doors.engine import ClusterState, Placer, Plan, TieBreak, bound
from tests.make import ZONE, node, pod, port

from moorage.kube import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint

FILTERS = ["NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"]
ALL = 0b1111
SELECTOR = LabelSelector(match_labels={"app": "x"})


def plan(state: ClusterState) -> Plan:
    return Plan(
        state.table,
        filters=list(FILTERS),
        scores=[("NodeResourcesFit", 1)],
        fit=[("cpu", 1), ("memory", 1)],
        balanced=[],
    )


def made(*pods: Pod) -> tuple[ClusterState, Placer]:
    state = ClusterState()
    for name, zone in (("a", "y"), ("b", "z")):
        state.set_node(node(name, zone=zone))
    for one in pods:
        state.add_pod(one)
    return state, Placer(state, plan(state), TieBreak.FIRST)


def ask(state: ClusterState, placer: Placer, pod: Pod, gone: Any = (), come: Any = ()) -> int:
    row = state.table.find_row("a")
    assert row is not None
    changes = [(row, list(gone), list(come), None)]
    return placer.search.verdict_after(changes, ALL, (state.classes.intern(pod), 0, 0))


def there(name: str, cpu: int = 1, on: str = "a", **spec: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu}, **spec)


def reason(verdict: int) -> str:
    return FILTERS[(verdict >> 56) - 1] if verdict else ""


def test_conflicts_follow_the_ports_in_use() -> None:
    """Of more sets of host ports than conflicts are kept for, which nodes come to use meanwhile."""
    random = Random(1)
    state, _ = made()
    placer = Placer(state, Plan(state.table, FILTERS[:1], []), TieBreak.FIRST)
    used: dict[str, set[tuple[str, int]]] = {"a": set(), "b": set()}
    addresses, numbers = ("", "0.0.0.0", "10.0.0.1", "10.0.0.2"), range(8000, 8300)
    for turn in range(4):
        for number in random.sample(numbers, len(numbers)):
            wanted = [(random.choice(addresses), number), ("10.0.0.1", number + 1)]
            asked = pod("p", ports=[port(number, address) for address, number in wanted])
            _, verdicts = placer.search.verdicts(state.classes.intern(asked))
            assert list(map(reason, verdicts.tolist())) == [
                "NodePorts" if any(meets(one, other) for one in wanted for other in ports) else ""
                for ports in used.values()
            ]
            if not number % 9:
                name, address = random.choice("ab"), random.choice(addresses)
                used[name].add((address, number))
                state.add_pod(there(f"v{turn}-{number}", 0, name, ports=[port(number, address)]))


def meets(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether two host ports, an address and a number each, conflict."""
    everywhere = {"", "0.0.0.0"} & {one[0], other[0]}
    return one[1] == other[1] and (bool(everywhere) or one[0] == other[0])


def spreads(selector: LabelSelector, soft: bool = False) -> Pod:
    when = ["DoNotSchedule", "ScheduleAnyway"]
    constraints = tuple(TopologySpreadConstraint(1, ZONE, each, selector) for each in when[: 1 + soft])
    return pod("p", topology_spread_constraints=constraints)


# ---- against the change itself -----------------------------------------------------------------------------

TERM = PodAffinityTerm(label_selector=SELECTOR, topology_key=ZONE)
AFFINITIES = [
    None,
    Affinity(pod_affinity=PodAffinity(required=(TERM,))),
    Affinity(pod_anti_affinity=PodAffinity(required=(TERM,))),
]


@st.composite
def pods(draw: Any, name: str, on: str = "") -> Pod:
    spec = {
        "labels": draw(st.sampled_from([{}, {"app": "x"}])),
        "ports": draw(st.sampled_from([(), (port(80),), (port(81),)])),
        "affinity": draw(st.sampled_from(AFFINITIES)),
        "requests": {"cpu": draw(st.integers(0, 2))},
    }
    if not on and draw(st.booleans()):
        spec["topology_spread_constraints"] = spreads(SELECTOR).spec.topology_spread_constraints
    return pod(name, on=on, **spec)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_it_is_as_if_it_were_so(data: Any) -> None:
    """For pods without a port in common, and for a plugin that PreFilter does not pass over."""
    held = [data.draw(pods(f"v{at}", data.draw(st.sampled_from("ab")))) for at in range(5)]
    extra = [data.draw(pods(f"c{at}", "a")) for at in range(2)]
    asked = data.draw(pods("p"))
    taken = [one for one in [*held, *extra] for c in one.spec.containers if c.ports]
    if len({one.spec.containers[0].ports for one in taken}) != len(taken):
        held = [replace(one, spec=replace(one.spec, containers=pod("x").spec.containers)) for one in held]
        extra = [replace(one, spec=replace(one.spec, containers=pod("x").spec.containers)) for one in extra]
    state, placer = made(*held)
    gone = [one for one in held if one.spec.node_name == "a" and data.draw(st.booleans())]
    come = extra[: data.draw(st.integers(0, 2))]
    ask(state, placer, asked, gone, come)  # makes the counters
    before = dump(state)
    verdict = ask(state, placer, asked, gone, come)
    assert dump(state, before) == before
    changed, after = made(*[one for one in held if one not in gone], *[bound(one, "a") for one in come])
    rows, verdicts = after.search.verdicts(changed.classes.intern(asked))
    expected = int(verdicts[np.flatnonzero(rows == changed.table.find_row("a"))[0]])
    assert verdict == expected
