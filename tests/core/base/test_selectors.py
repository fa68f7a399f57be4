"""Which requirements are well-formed, selectors from text, and tolerations that compare, as Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.doors.engine import field_requirement_error, requirement_error, tolerates

from moorage.kube import (
    LabelSelector,
    LabelSelectorMatcher,
    LabelSelectorRequirement,
    Taint,
    Toleration,
    parse_selector,
)

NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
NAME_WRONG = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
)
VALUE_WRONG = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '({NAME})?')"
)
UPSTREAM = json.loads(Path(__file__).with_name("selectors.json").read_text())
"""What Kubernetes answers, by what it is asked about: the text of its error, or whether it matches."""


# ---- validation


@pytest.mark.parametrize(("key", "detail"), UPSTREAM["keys"])
def test_a_label_key_that_is_malformed_is_refused_with_upstreams_text(key: str, detail: str | None) -> None:
    error = requirement_error(key, "Exists", (), node=False)
    shown = key.replace("\n", "\\n")
    assert error == (detail and f'key: Invalid value: "{shown}": {detail}')


@pytest.mark.parametrize(("operator", "values", "error"), UPSTREAM["requirements of nodes"])
def test_a_requirement_of_a_node_selector_is_refused_with_upstreams_text(
    operator: str, values: list[str], error: str | None
) -> None:
    assert requirement_error("k", operator, tuple(values), node=True) == error


def test_several_errors_are_listed_once_each() -> None:
    error = requirement_error("-", "Exists", ("-",), node=False)
    assert error is not None
    assert error.startswith("[key: Invalid value: ")
    assert error.endswith(f'values[0][-]: Invalid value: "-": {VALUE_WRONG}]')


@pytest.mark.parametrize("operator", ["Gt", "Lt", "", "in"])
def test_label_requirement_operators(operator: str) -> None:
    expected = f'"{operator}" is not a valid label selector operator'
    assert requirement_error("k", operator, ("1",), node=False) == expected


@pytest.mark.parametrize(("key", "operator", "values", "error"), UPSTREAM["requirements of fields"])
def test_a_requirement_about_fields_is_refused_with_upstreams_text(
    key: str, operator: str, values: list[str], error: str | None
) -> None:
    assert field_requirement_error(key, operator, tuple(values)) == error


# ---- label selectors


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        (LabelSelector(match_labels={"a": "-"}), f'values[0][a]: Invalid value: "-": {VALUE_WRONG}'),
        (LabelSelector(match_labels={"-": "a"}), f'key: Invalid value: "-": name part {NAME_WRONG}'),
        (expression("a", "Gt", "1"), '"Gt" is not a valid label selector operator'),
        (
            expression("a", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
    ],
)
def test_malformed_label_selector(selector: LabelSelector, error: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        LabelSelectorMatcher(selector)
    assert str(caught.value) == error


# ---- the text form


@pytest.mark.parametrize(("text", "labels", "matches"), UPSTREAM["texts"])
def test_a_selector_read_from_text_matches_as_kubectls_does(
    text: str, labels: dict[str, str], matches: bool
) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize(("text", "error"), UPSTREAM["no selectors"])
def test_a_text_that_is_no_selector_is_refused_with_upstreams_text(text: str, error: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        parse_selector(text)
    assert str(caught.value) == error


@pytest.mark.parametrize(("operator", "bound", "value", "is_tolerated"), UPSTREAM["comparing tolerations"])
def test_tolerations_that_compare(operator: str, bound: str, value: str, is_tolerated: bool) -> None:
    toleration, taint = Toleration(key="k", operator=operator, value=bound), Taint("k", value, "NoExecute")
    assert tolerates([toleration], taint, compares=True) is is_tolerated
    assert not tolerates([toleration], taint)
    assert not tolerates([Toleration(key="other", operator=operator, value=bound)], taint, compares=True)
