"""Topologies of a pass, compared with their rules over sets of names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.doors.autoscalers import CORE, ConstraintGroups, Host, Ties, TopologyCounts, Vocabulary

ZONE, HOST, ARCH = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "kubernetes.io/arch"
NAMES = ("d", "b", "e", "a", "c")
SPREAD, AFFINITY, ANTI_AFFINITY = "topology spread", "pod affinity", "pod anti-affinity"
names = st.none() | st.sets(st.sampled_from(NAMES), min_size=1)
groups = st.tuples(
    *(st.sampled_from([SPREAD, AFFINITY, ANTI_AFFINITY]), st.integers(1, 3)),
    *(st.none() | st.integers(1, 4), st.booleans()),
)


@dataclass(eq=False)
class Group:
    kind: str
    max_skew: int
    min_domains: int | None
    is_selecting: bool
    key: Any
    topology_key: str
    node_filter: None = None

    def selects(self, _pods: object) -> bool:
        return self.is_selecting


@dataclass(eq=False)
class Pass:
    """What the counts ask of a topology, and of the constraints of a pod."""

    requirements: Any
    labelled: None = None
    own: dict[str, TopologyCounts] = field(default_factory=dict)
    inverse: dict[str, TopologyCounts] = field(default_factory=dict)

    @property
    def strict_requirements(self) -> Any:
        return self.requirements

    def selecting(self, _pods: object, inverse: bool) -> list[TopologyCounts]:
        return [] if inverse else [*self.own.values()]


def open_domains(group: Group, counts: dict[str, int], pods: set[str], nodes: set[str]) -> set[str]:
    """Those in which a pod may be, of those that it and a node allow."""
    there = {name for name in pods & counts.keys() if counts[name]}
    if group.kind == ANTI_AFFINITY:
        return (pods & nodes & counts.keys()) - there
    if group.kind == AFFINITY:
        known = sorted(pods & counts.keys())
        if there or not group.is_selecting or not known:
            return there & nodes
        return {known[0], *sorted(nodes.intersection(known))[:1]}
    allowed = [counts[name] for name in pods & counts.keys()]
    least = min(allowed, default=2**31 - 1)
    if group.min_domains is not None and len(allowed) < group.min_domains:
        least = 0
    fits = [name for name in nodes if name in counts]
    fits = [name for name in fits if counts[name] + group.is_selecting - least <= group.max_skew]
    return {min(fits, key=lambda name: (counts[name], name))} if fits else set()


@given(groups, st.sets(st.sampled_from(NAMES)), st.lists(st.sampled_from(NAMES), max_size=9), names, names)
def test_domains_are_those_of_the_rules(
    of: tuple[str, int, int | None, bool],
    known: set[str],
    placed: list[str],
    pods: set[str] | None,
    nodes: set[str] | None,
) -> None:
    vocabulary = Vocabulary(CORE)
    key = vocabulary.key(ZONE)
    group = Group(*of, key, ZONE)
    counts = TopologyCounts(group, key.mask(known), [])
    key.mask(NAMES)
    for name in placed:
        counts.record(key.bit(name))
    ours, theirs = (vocabulary.of_terms([]) for _ in "ab")
    ours = vocabulary.set_of([key.one_of(*pods)]) if pods else ours
    theirs = vocabulary.set_of([key.one_of(*nodes)]) if nodes else theirs
    topology = Pass(ours, own={"g": counts})
    matter = ConstraintGroups(topology, topology, [counts])
    host = Host("h", (), theirs, vocabulary.of_labels({HOST: "h"}), True)
    narrowed: Any
    [narrowed] = matter.ways(host, (), Ties(0))
    tally = {name: placed.count(name) for name in {*known, *placed}}
    expected = open_domains(group, tally, pods or set(NAMES), nodes or set(NAMES))
    if not expected:
        assert str(narrowed).startswith(f"unsatisfiable topology constraint for {group.kind}, key={ZONE}")
    elif nodes and not expected & nodes:
        assert "not in" in narrowed
    else:
        assert set(key.names(narrowed.get(ZONE).mask)) == expected & (nodes or expected)


@given(groups, st.lists(st.sampled_from(NAMES), max_size=9), names)
def test_hosts_are_those_of_the_rules(
    of: tuple[str, int, int | None, bool], placed: list[str], pods: set[str] | None
) -> None:
    vocabulary = Vocabulary(CORE)
    key = vocabulary.key(HOST)
    hosts = {name: vocabulary.of_labels({HOST: name}) for name in NAMES}
    group = Group(*of, key, HOST)
    counts = TopologyCounts(group, 0, [])
    topology = Pass(vocabulary.set_of([key.one_of(*pods)] if pods else []), own={"g": counts})
    matter = ConstraintGroups(topology, topology, [counts])
    seen = {name: Host(name, (), vocabulary.empty, hosts[name], True) for name in NAMES}
    for name in placed:
        matter.record(seen[name])
    for name, host in seen.items():
        count, allowed = placed.count(name), pods is None or name in pods
        takes = {
            SPREAD: count + group.is_selecting <= group.max_skew,
            ANTI_AFFINITY: not count,
            AFFINITY: allowed
            and (count > 0 or (group.is_selecting and not (set(placed) & (pods or set(NAMES))))),
        }[group.kind]
        assert (matter.ways(host, (), Ties(0)) == [topology.requirements.without(HOST)]) == takes


def test_turns_take_each_choice_of_domains_for_several_keys() -> None:
    vocabulary = Vocabulary(CORE)
    keys = [vocabulary.key(name) for name in (ZONE, ARCH)]
    groups = [Group(SPREAD, 1, None, True, key, name) for key, name in zip(keys, (ZONE, ARCH), strict=True)]
    counts = [TopologyCounts(group, group.key.mask(["a", "b", "c"]), []) for group in groups]
    topology = Pass(vocabulary.of_terms([]), own=dict(zip("gh", counts, strict=True)))
    matter = ConstraintGroups(topology, topology, counts)
    host = Host("h", (), vocabulary.of_terms([]), vocabulary.of_labels({HOST: "h"}), True)
    ties, seen = Ties(7), set()
    ties.turn = 1
    while ties.turn <= ties.ways:
        [narrowed] = matter.ways(host, (), ties)
        seen.add(
            tuple(
                key.names(narrowed.get(group.topology_key).mask)[0]
                for key, group in zip(keys, groups, strict=True)
            )
        )
        ties.turn += 1
    assert len(seen) == ties.ways == 9
