"""Node selectors, required node affinity and taints, as Kubernetes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.engine import find_intolerable_taint, pod_matches_node_selector, tolerates

from moorage.kube import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorMatcher,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PodSpec,
    Taint,
    Toleration,
)

Need = NodeSelectorRequirement


def node(name: str = "n1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def label(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=(Need(key=key, operator=operator, values=values),))


def named(operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(Need(key="metadata.name", operator=operator, values=values),))


@pytest.mark.parametrize(
    ("terms", "candidate", "matches"),
    [
        ((), node(), False),
        ((NodeSelectorTerm(), label("a", "Exists")), node(a="x"), True),
        ((label("a", "Lt", "5"),), node(a="-6"), True),
        ((label("a", "Lt", "5"),), node(a="1_0"), False),
        ((label("a", "Lt", "5"),), node(a="-9223372036854775809"), False),
        ((label("a", "Lt", "-5"),), node(a="-6"), False),
        ((label("a", "Lt", "-5"), label("a", "Exists")), node(a="-6"), True),
        ((label("a", "Equals", "x"),), node(a="x"), False),
        ((named("In", "n1"),), node(), True),
        ((named("NotIn", "n2"),), node(), True),
        ((named("In", "n1", "n2"),), node(), False),
        ((named("In", "n1"),), node(""), True),
    ],
)
def test_a_node_selector_matches_if_one_of_its_terms_does(
    terms: tuple[NodeSelectorTerm, ...], candidate: Node, matches: bool
) -> None:
    assert NodeSelectorMatcher(NodeSelector(node_selector_terms=terms)).matches(candidate) is matches


def test_a_term_is_all_its_requirements() -> None:
    term = NodeSelectorTerm(
        match_expressions=(Need(key="a", operator="Exists"), Need(key="b", operator="In", values=("x",))),
        match_fields=(Need(key="metadata.name", operator="In", values=("n1",)),),
    )
    matcher = NodeSelectorMatcher(NodeSelector(node_selector_terms=(term,)))
    assert matcher.matches(node(a="", b="x"))
    assert not matcher.matches(node(b="x"))
    assert not matcher.matches(node(a=""))
    assert not matcher.matches(node("n2", a="", b="x"))


@pytest.mark.parametrize(
    ("selector", "terms", "matches"),
    [
        (None, None, True),
        ({"a": "y"}, None, False),
        (None, (), False),
        ({"a": "x"}, (label("a", "In", "y"),), False),
        ({"a": "y"}, (label("a", "In", "x"),), False),
    ],
)
def test_a_node_has_to_match_the_node_selector_and_the_affinity_of_a_pod(
    selector: dict[str, str] | None, terms: tuple[NodeSelectorTerm, ...] | None, matches: bool
) -> None:
    required = None if terms is None else NodeSelector(node_selector_terms=terms)
    spec = PodSpec(node_selector=selector, affinity=Affinity(node_affinity=NodeAffinity(required=required)))
    assert pod_matches_node_selector(spec, node(a="x")) is matches


# ---- a twin: every requirement of a well-formed selector as one expression

keys = st.sampled_from("ab")
values = st.sampled_from(["x", "y", "", "1", "2", "3"])
wanted = st.one_of(
    st.builds(Need, key=keys, operator=st.sampled_from(["In", "NotIn"]), values=st.tuples(values, values)),
    st.builds(Need, key=keys, operator=st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        Need, key=keys, operator=st.sampled_from(["Gt", "Lt"]), values=st.tuples(st.sampled_from("123"))
    ),
)
terms_of = st.lists(
    st.builds(NodeSelectorTerm, match_expressions=st.lists(wanted, max_size=3).map(tuple)), max_size=3
)


def holds(need: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(need.key)
    number = int(value) if value and value.isdigit() else None
    bound = int(need.values[0]) if need.operator in ("Gt", "Lt") else 0
    return {
        "In": value in need.values,
        "NotIn": value not in need.values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": number is not None and number > bound,
        "Lt": number is not None and number < bound,
    }[need.operator]


@settings(deadline=None)
@given(terms_of, st.dictionaries(keys, values))
def test_random_node_selectors_match_as_the_twin_says(
    terms: list[NodeSelectorTerm], labels: dict[str, str]
) -> None:
    expected = any(
        term.match_expressions and all(holds(need, labels) for need in term.match_expressions)
        for term in terms
    )
    matcher = NodeSelectorMatcher(NodeSelector(node_selector_terms=tuple(terms)))
    assert matcher.matches(node(**labels)) is expected


# ---- taints

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(operator="Equal", value="v"), True),
        (Toleration(key="k", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Gt", value="v"), False),
        (Toleration(key="k", operator="exists"), False),
    ],
)
def test_a_toleration_tolerates_a_taint_as_upstream_does(toleration: Toleration, expected: bool) -> None:
    assert tolerates((toleration,), TAINT) is expected
    assert tolerates((Toleration(key="no"), toleration), TAINT) is expected


def test_find_intolerable_taint() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    hard = Taint(key="hard", effect="NoExecute")
    taints = (soft, TAINT, hard)
    effects = ("NoSchedule", "NoExecute")
    assert find_intolerable_taint(taints, (), effects) is TAINT
    assert find_intolerable_taint(taints, (Toleration(key="k", operator="Exists"),), effects) is hard
    assert find_intolerable_taint(taints, (Toleration(operator="Exists"),), effects) is None
    assert find_intolerable_taint((soft,), (), effects) is None
