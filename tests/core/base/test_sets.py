"""Taint sets and port sets: interned, and what a row's id turns into."""

from __future__ import annotations

import pickle

import pytest
from tests.core.inside import inside, values
from tests.core.make import node, pod, port
from tests.doors.engine import ClusterState, PortSets, Requirement, Symbols, Taint, TaintSets, Toleration

from moorage.objects import Taint as NodeTaint

A, B = Taint("a", "", "NoSchedule"), Taint("b", "1", "NoExecute")


def test_taint_sets_are_interned() -> None:
    sets = TaintSets()
    assert sets.intern(()) == 0
    assert sets.intern((A, B)) == 1
    assert sets.intern((B, A)) == 2
    assert sets.intern((Taint("a", "", "NoSchedule"), B)) == 1
    assert sets.sets == [(), (A, B), (B, A)]


@pytest.mark.parametrize("one", [A, Toleration("a", "Exists", "", ""), Requirement(0, 1, (2,), 3)])
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


def taints_of(one: ClusterState, name: str) -> tuple[Taint, ...]:
    row = one.table.find_row(name)
    taints: tuple[Taint, ...] = one.table.taint_sets.sets[
        values(inside(one.table)["taint_set"], "i4", row + 1)[row]
    ]
    return taints


def test_a_row_has_its_nodes_taints() -> None:
    one = ClusterState()
    one.set_node(node("a", taints=[NodeTaint(key="b", value="1", effect="NoExecute", time_added="now")]))
    assert taints_of(one, "a") == (B,)
    one.add_pod(pod("p", on="a"))
    one.remove_node("a")
    assert taints_of(one, "a") == ()


def ports_of(one: ClusterState, name: str) -> set[str]:
    row = one.table.find_row(name)
    held = one.table.port_sets.sets[values(inside(one.table)["port_set"], "i4", row + 1)[row]]
    names = one.symbols.names
    return {f"{names[ip]}/{names[protocol]}/{number}" for ip, protocol, number in held}


def test_address_and_protocol_have_defaults() -> None:
    one = ClusterState()
    one.add_pod(pod("p", on="a", ports=[port(80), port(80, "10.0.0.1", "UDP"), port(0)]))
    assert ports_of(one, "a") == {"0.0.0.0/TCP/80", "10.0.0.1/UDP/80"}


def test_ports_of_a_node_are_a_set() -> None:
    """Upstream's HostPortInfo: the first of two equal ports that goes takes the port away."""
    one = ClusterState()
    one.set_node(node("a"))
    one.add_pod(pod("p", on="a", ports=[port(80), port(80)]))
    one.add_pod(pod("q", on="a", ports=[port(80), port(81)]))
    assert ports_of(one, "a") == {"0.0.0.0/TCP/80", "0.0.0.0/TCP/81"}
    one.remove_pod(pod("p", on="a"))
    assert ports_of(one, "a") == {"0.0.0.0/TCP/81"}
    one.remove_pod(pod("q", on="a"))
    assert ports_of(one, "a") == set()


def test_an_update_moves_ports() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    one.add_pod(pod("p", on="a", ports=[port(80)]))
    one.update_pod(pod("p"), pod("p", on="a", ports=[port(82, protocol="SCTP")]))
    assert ports_of(one, "a") == {"0.0.0.0/SCTP/82"}


@pytest.mark.parametrize("ghost", [False, True])
def test_equal_contents_have_equal_ids(ghost: bool) -> None:
    one = ClusterState()
    for name in "ab":
        one.add_pod(pod(f"on-{name}", on=name, ports=[port(81), port(80)][:: 1 if name == "a" else -1]))
        if not ghost:
            one.set_node(node(name, taints=[NodeTaint(key="a", effect="NoSchedule")]))
    parts = inside(one.table)
    assert len(set(values(parts["port_set"], "i4", 2))) == 1
    assert len(set(values(parts["taint_set"], "i4", 2))) == 1
