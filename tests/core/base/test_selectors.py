"""Label selectors, and which requirements are well-formed, as Kubernetes."""

from __future__ import annotations

import pytest
from tests.doors.engine import field_requirement_error, requirement_error, tolerates

from moorage.objects import (
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
DNS_WRONG = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


# ---- validation


@pytest.mark.parametrize(
    ("key", "detail"),
    [
        ("a", None),
        ("A.b_c-9", None),
        ("example.com/a", None),
        ("a" * 63, None),
        ("a" * 253 + "/a", None),
        ("", f"name part must be non-empty; name part {NAME_WRONG}"),
        ("-a", f"name part {NAME_WRONG}"),
        ("a\n", f"name part {NAME_WRONG}"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("é" * 32, f"name part must be no more than 63 bytes; name part {NAME_WRONG}"),
        ("/a", "prefix part must be non-empty"),
        ("Ex/a", f"prefix part {DNS_WRONG}"),
        ("a" * 254 + "/a", "prefix part must be no more than 253 bytes"),
        (
            "a/b/c",
            f"a valid label key {NAME_WRONG} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        ),
    ],
)
def test_a_label_key_that_is_malformed_is_refused_with_upstreams_text(key: str, detail: str | None) -> None:
    error = requirement_error(key, "Exists", (), node=False)
    shown = key.replace("\n", "\\n")
    assert error == (detail and f'key: Invalid value: "{shown}": {detail}')


@pytest.mark.parametrize(
    ("operator", "values", "error"),
    [
        ("In", ("a", ""), None),
        ("In", ("a" * 63,), None),
        ("In", (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ("NotIn", (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ("In", ("a" * 64,), f'values[0][k]: Invalid value: "{"a" * 64}": must be no more than 63 bytes'),
        ("In", ("a", "-"), f'values[1][k]: Invalid value: "-": {VALUE_WRONG}'),
        (
            "Exists",
            ("a",),
            'values: Invalid value: ["a"]: values set must be empty for exists and does not exist',
        ),
        (
            "DoesNotExist",
            ("a", "b"),
            'values: Invalid value: ["a","b"]: values set must be empty for exists and does not exist',
        ),
        ("Gt", ("5",), None),
        ("Lt", ("007",), None),
        ("Gt", (), "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required"),
        (
            "Gt",
            ("1", "2"),
            "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            "Lt",
            ("x",),
            "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "Lt",
            (str(2**63),),
            f"values[0]: Invalid value: \"{2**63}\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("Gt", ("-5",), f'values[0][k]: Invalid value: "-5": {VALUE_WRONG}'),
        (
            "Gt",
            ("1_0",),
            "values[0]: Invalid value: \"1_0\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "Near",
            (),
            'operator: Unsupported value: "Near": supported values: '
            '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        ),
    ],
)
def test_a_requirement_of_a_node_selector_is_refused_with_upstreams_text(
    operator: str, values: tuple[str, ...], error: str | None
) -> None:
    assert requirement_error("k", operator, values, node=True) == error


def test_several_errors_are_listed_once_each() -> None:
    error = requirement_error("-", "Exists", ("-",), node=False)
    assert error is not None
    assert error.startswith("[key: Invalid value: ")
    assert error.endswith(f'values[0][-]: Invalid value: "-": {VALUE_WRONG}]')


@pytest.mark.parametrize("operator", ["Gt", "Lt", "", "in"])
def test_label_requirement_operators(operator: str) -> None:
    expected = f'"{operator}" is not a valid label selector operator'
    assert requirement_error("k", operator, ("1",), node=False) == expected


@pytest.mark.parametrize(
    ("key", "operator", "values", "error"),
    [
        ("metadata.name", "In", ("n",), None),
        ("metadata.name", "NotIn", ("Any name!",), None),
        ("metadata.name", "In", (), "values: Invalid value: null: must have one element"),
        ("metadata.name", "NotIn", ("a", "b"), 'values: Invalid value: ["a","b"]: must have one element'),
        (
            "metadata.name",
            "Exists",
            (),
            'operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
        ("spec.x", "In", ("n",), 'key: Invalid value: "spec.x": not a valid field selector key'),
    ],
)
def test_a_requirement_about_fields_is_refused_with_upstreams_text(
    key: str, operator: str, values: tuple[str, ...], error: str | None
) -> None:
    assert field_requirement_error(key, operator, values) == error


# ---- label selectors


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {}, False),
        (LabelSelector(), {}, True),
        (LabelSelector(match_labels={"a": "x"}), {"a": "x", "b": "y"}, True),
        (LabelSelector(match_labels={"a": "x"}), {"a": "y"}, False),
        (LabelSelector(match_labels={"a": ""}), {}, False),
        (LabelSelector(match_labels={"a": "x", "b": "y"}), {"a": "x"}, False),
        (expression("a", "In", "x", "y"), {"a": "y"}, True),
        (expression("a", "In", "x", ""), {}, False),
        (expression("a", "NotIn", "x"), {}, True),
        (expression("a", "NotIn", "x"), {"a": "x"}, False),
        (expression("a", "NotIn", "x"), {"a": "y"}, True),
        (expression("a", "Exists"), {"a": ""}, True),
        (expression("a", "Exists"), {}, False),
        (expression("a", "DoesNotExist"), {"a": ""}, False),
        (expression("a", "DoesNotExist"), {"b": ""}, True),
    ],
)
def test_a_label_selector_matches_labels_as_upstreams_does(
    selector: LabelSelector | None, labels: dict[str, str], matches: bool
) -> None:
    assert LabelSelectorMatcher(selector).matches(labels) is matches


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


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        (" \t", {"a": "x"}, True),
        ("a=b,c!=d,e in (x,y),!f,g,h>1", {"a": "b", "e": "y", "g": "", "h": "2"}, True),
        ("a=b,c!=d,e in (x,y),!f,g,h>1", {"a": "b", "e": "y", "g": "", "h": "1"}, False),
        ("a == b", {"a": "b"}, True),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": "x"}, True),
        ("a!=", {}, True),
        ("a in ()", {"a": ""}, True),
        ("a in (,x)", {"a": ""}, True),
        ("a in (x,)", {"a": ""}, True),
        ("a in (x)", {"a": ""}, False),
        ("a notin (x)", {}, True),
        ("a notin(x)", {"a": "x"}, False),
        ("in in (in,notin)", {"in": "notin"}, True),
        ("a<5", {"a": "-7"}, True),
        ("a<5", {"a": "x"}, False),
        ("a>5", {}, False),
        ("!a", {"a": ""}, False),
    ],
)
def test_a_selector_read_from_text_matches_as_kubectls_does(
    text: str, labels: dict[str, str], matches: bool
) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("-a", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {NAME_WRONG}'),
        ("a=-", f'unable to parse requirement: values[0][a]: Invalid value: "-": {VALUE_WRONG}'),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_text_that_is_no_selector_is_refused_with_upstreams_text(text: str, error: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        parse_selector(text)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("operator", "bound", "value", "is_tolerated"),
    [
        ("Gt", "3", "4", True),
        ("Gt", "3", "3", False),
        ("Gt", "-4", "-3", True),
        ("Lt", "3", "2", True),
        ("Lt", "3", "3", False),
        ("Lt", "0", str(-(2**63)), True),
        ("Gt", "0", str(2**63 - 1), True),
        ("Gt", "0", str(2**63), False),
        ("Lt", "5", "", False),
        ("Lt", "", "5", False),
        ("Lt", "9", "007", False),
        ("Lt", "9", "+7", False),
        ("Lt", "9", "-0", False),
        ("Lt", "9", "7.0", False),
        ("Lt", "9", "1" * 5000, False),
        ("Ne", "9", "7", False),
    ],
)
def test_tolerations_that_compare(operator: str, bound: str, value: str, is_tolerated: bool) -> None:
    toleration, taint = Toleration(key="k", operator=operator, value=bound), Taint("k", value, "NoExecute")
    assert tolerates([toleration], taint, compares=True) is is_tolerated
    assert not tolerates([toleration], taint)
    assert not tolerates([Toleration(key="other", operator=operator, value=bound)], taint, compares=True)
