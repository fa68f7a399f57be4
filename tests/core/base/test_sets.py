"""Sets of ports are interned, and parts of sets and shapes pickle."""

from __future__ import annotations

import pickle

import pytest
from tests.core.inside import inside, values
from tests.doors.engine import PortSets, Requirement, Symbols, Taint, Toleration


@pytest.mark.parametrize(
    "one", [Taint("a", "", "NoSchedule"), Toleration("a", "Exists", "", ""), Requirement(0, 1, (2,), 3)]
)
def test_what_sets_and_shapes_are_made_of_pickles(one: object) -> None:
    assert pickle.loads(pickle.dumps(one)) == one


def test_port_sets_are_interned() -> None:
    symbols = Symbols()
    sets = PortSets(symbols)
    ip, tcp = symbols.intern("0.0.0.0"), symbols.intern("TCP")
    assert sets.any_ip == ip
    both = frozenset({(ip, tcp, 80), (ip, tcp, 81)})
    assert (sets.intern(frozenset()), sets.intern(both), sets.intern(both)) == (0, 1, 1)
    assert sets.sets == [frozenset(), both]
    parts = inside(sets)
    assert (values(parts["first"], "i4", 2), values(parts["count"], "i4", 2)) == ([0, 0], [0, 2])
    assert parts["ports"].array("i4", 2).tolist() == [ip, tcp, 80, ip, tcp, 81]
