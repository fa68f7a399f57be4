"""FieldRules: values that follow a rule are asked about once, others each time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import FieldRules, SpecRule

from moorage.errors import InputError
from moorage.kube import ObjectMeta, Pod, PodSpec

NOTHING: dict[str, str] = {}


def rules_of(name: str, asked: list[object]) -> FieldRules:
    """A rule of a field of the metadata, which refuses what is true for "bad"."""

    def rule(value: object) -> None:
        asked.append(value)
        if "bad" in str(value):
            raise InputError("bad", path="[key]")

    return FieldRules([(["metadata", name], f"metadata.{name}", NOTHING, rule)])


def test_equal_texts_are_asked_about_once() -> None:
    asked: list[object] = []
    rules = rules_of("name", asked)
    assert len(rules) == 1
    for name in ("a-b", "-".join("ab"), "c"):
        rules.check(Pod(metadata=ObjectMeta(name=name)))
    assert asked == ["a-b", "c"]


def test_equal_lists_are_asked_about_once_if_they_have_no_maps() -> None:
    asked: list[object] = []
    rules = rules_of("finalizers", asked)
    for count in (1, 2, 1):
        rules.check(Pod(metadata=ObjectMeta(finalizers=("f",) * count)))
    held: Any = ({"a": "b"},)
    for finalizers in (held, held, ({"a": "b"},)):
        rules.check(Pod(metadata=ObjectMeta(finalizers=finalizers)))
    assert asked == [("f",), ("f", "f"), held, held]


def test_other_values_are_known_by_identity() -> None:
    asked: list[object] = []
    rules = rules_of("labels", asked)
    shared = {"a": "b"}
    for labels in (shared, shared, dict(shared), NOTHING):
        rules.check(Pod(metadata=ObjectMeta(labels=labels)))
    assert asked == [shared, shared]


def test_the_address_of_a_valid_value_is_not_used_again() -> None:
    """The values are kept, so no other value has the address of one."""
    rules = rules_of("labels", [])
    for number in range(3000):
        rules.check(Pod(metadata=ObjectMeta(labels={"n": str(number)})))
        with pytest.raises(InputError):
            rules.check(Pod(metadata=ObjectMeta(labels={"n": "bad"})))


def test_a_bad_value_is_refused_each_time() -> None:
    asked: list[object] = []
    rules = rules_of("name", asked)
    pod = Pod(metadata=ObjectMeta(name="bad"))
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            rules.check(pod)
        assert (caught.value.message, caught.value.path) == ("bad", "metadata.name[key]")
    assert asked == ["bad", "bad"]


def test_a_rule_of_specs_is_asked_once_per_template() -> None:
    asked: list[PodSpec] = []
    rules = FieldRules([(["spec"], "spec", NOTHING, SpecRule(asked.append))])
    first, other = PodSpec(node_name="a"), PodSpec(host_network=True)
    for spec in (first, replace(first, node_name="b"), other, replace(other, node_name="b")):
        rules.check(Pod(spec=spec))
    assert asked == [first, other]


def test_other_errors_pass() -> None:
    def rule(value: object) -> None:
        raise KeyError(value)

    with pytest.raises(KeyError):
        FieldRules([(["metadata", "name"], "metadata.name", "", rule)]).check(
            Pod(metadata=ObjectMeta(name="a"))
        )
