"""Units of lower priority leave their rows, with their entries in the ledger or by their usage alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.inside import dump
from tests.doors.engine import ClusterState, LowerUnits, groups_of
from tests.make import node, port
from tests.preemption.test_eviction_units import SINGLE, group, member
from tests.preemption.world import terminating, victim
from tests.scheduler.groups.gang_kit import world
from tests.scheduler.groups.test_group_preemption import with_ports

from moorage import Scheduler
from moorage.kube import Pod

NAMES = "abc"


@st.composite
def pods(draw: Any) -> list[Pod]:
    """Pods of some priorities, alone and in groups, on three nodes and on one that does not exist."""
    found = []
    for at in range(draw(st.integers(1, 10))):
        on, to = draw(st.sampled_from(f"{NAMES}x")), draw(st.sampled_from(["g", "i", "", ""]))
        rest = {"cpu": draw(st.integers(0, 3)), "priority": draw(st.integers(8, 11))}
        one = member(f"v{at}", on, to=to, **rest) if to else victim(f"v{at}", on, **rest)
        if draw(st.booleans()):
            one = with_ports(one, (port(80 + draw(st.integers(0, 1))),))
        found.append(terminating(one) if not to and draw(st.booleans()) else one)
    return found


def over(there: list[Pod]) -> Scheduler:
    groups = [group("g", 9), group("i", 9, SINGLE)]
    return world([node(name, cpu=40) for name in NAMES], groups, there)


def usage(state: ClusterState) -> dict[Any, Any]:
    """What each node has: requests, non-zero requests, host ports."""
    table = state.table
    rows = [row for row in range(table.used) if table.is_present(row)]
    found = {
        (kind, name): columns[name][rows].tolist()
        for kind, columns in {"requested": table.requested, "nonzero": table.nonzero}.items()
        for name in columns
    }
    return found | {"ports": [table.row_ports(row) for row in rows]}


@settings(deadline=None, max_examples=60)
@given(pods())
def test_usage_leaves_as_with_the_pods_and_returns(there: list[Pod]) -> None:
    scheduler = over(there)
    cache, left = scheduler.cache, list[Any]()
    for alone in (False, True):
        units = LowerUnits(cache.state, 10, groups_of(scheduler.handle))
        before = dump(cache.state)
        with cache.transaction():
            head = cache.state.log.head
            held = [len(cache.state.ledger.pods_of(row)) for row in range(cache.state.table.used)]
            units.remove(alone)
            left.append(usage(cache.state))
            named = cache.state.log.rows_since(head) or []
            for pod in units.pods_of(range(len(units))) if alone else ():
                assert cache.state.table.find_row(pod.spec.node_name) in named
                assert cache.state.has_pod(pod)
            if alone:
                now = [len(cache.state.ledger.pods_of(row)) for row in range(cache.state.table.used)]
                assert now == held
        assert dump(cache.state, before) == before
    assert left[0] == left[1]
