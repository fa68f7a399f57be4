"""The algebra of requirements, compared with sets of values that are listed one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from moorage.autoscalers import KnownLabels
from tests.doors.autoscalers import CORE, Vocabulary

VALUES = ("a", "b", "1", "2", "5", "07", "-3")
WRITTEN = (
    *(("In", ("a", "2")), ("In", ("1", "2", "5")), ("In", ()), ("NotIn", ("a", "1")), ("Exists", ())),
    *(("DoesNotExist", ()), ("Gt", ("1",)), ("Lt", ("5",)), ("Gte", ("2",)), ("Lte", ("1",))),
)


def every(vocabulary: Vocabulary) -> list[Any]:
    return [vocabulary.requirement("k", operator, values) for operator, values in WRITTEN]


def allowed(requirement: Any) -> set[str]:
    return {value for value in VALUES if requirement.allows(value)}


def test_what_meets_two_is_what_meets_each() -> None:
    made = every(Vocabulary(CORE))
    for one, other, third in product(made, repeat=3):
        assert allowed(one.meet(other)) == allowed(one) & allowed(other), (str(one), str(other))
        assert one.meet(other) is other.meet(one)
        assert allowed(one.meet(other).meet(third)) == allowed(one.meet(other.meet(third)))
        if not (one.complement and other.complement):
            assert one.intersects(other) == bool(allowed(one) & allowed(other))


def test_equal_requirements_are_one_object_and_old_names_are_new_ones() -> None:
    vocabulary = Vocabulary(CORE)
    old = vocabulary.requirement("beta.kubernetes.io/arch", "In", ("b", "a"))
    assert old is vocabulary.requirement("kubernetes.io/arch", "In", ("a", "b", "a"))
    assert str(old) == "kubernetes.io/arch In [a b]"


@pytest.mark.parametrize(
    ("operator", "values", "text"),
    [
        ("In", tuple("gfedcba"), "k In [a b c d e and 2 others]"),
        ("NotIn", ("a",), "k NotIn [a]"),
        ("Gt", ("3",), "k Exists >=4"),
        ("Lt", ("3",), "k Exists <=2"),
        ("Gt", ("9223372036854775807",), "k DoesNotExist"),
        ("In", (), "k DoesNotExist"),
    ],
)
def test_texts_are_those_of_karpenter(operator: str, values: tuple[str, ...], text: str) -> None:
    assert str(Vocabulary(CORE).requirement("k", operator, values)) == text


def of(vocabulary: Vocabulary, **labels: str) -> Any:
    return vocabulary.of_labels({name.replace("_", "/"): value for name, value in labels.items()})


def test_a_label_that_is_not_there_is_refused_unless_it_is_well_known_or_excluded() -> None:
    vocabulary = Vocabulary(CORE | KnownLabels(frozenset({"known/zone"})))
    node = of(vocabulary, team="red")
    asked = of(vocabulary, known_zone="a")
    assert node.refusal(asked, undefined=True) == ""
    assert node.refusal(asked, undefined=False) == 'label "known/zone" does not have known values'
    assert node.refusal(of(vocabulary, zone="a"), undefined=True) == (
        'label "zone" does not have known values (typo of "known/zone"?)'
    )
    excluded = vocabulary.set_of([vocabulary.requirement("other", "NotIn", ("x",))])
    assert node.refusal(excluded, undefined=False) == ""
    other = of(vocabulary, team="blue")
    assert node.refusal(other, undefined=True) == "key team, team In [blue] not in team In [red]"
    assert not node.intersects(other)
