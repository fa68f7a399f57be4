"""Go templates: values, functions, pipelines, blocks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bench.scheduler_perf.go_template import parse

from moorage.errors import InputError

ARGUMENTS = {
    "Index": 7,
    "Count": 20,
    "nodes": 4,
    "half": 2.5,
    "kind": "single",
    "yes": True,
    "items": ["a", "b"],
    "map": {"inner": {"leaf": "x"}},
    "empty": "",
}


def render(text: str, **arguments: Any) -> str:
    return parse(text, "t.yaml").render(ARGUMENTS | arguments)


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("AddInt 1 2 3", "6"),
        ("AddInt .half 1", "3"),
        ("AddInt", "0"),
        ("AddFloat .half 1", "3.5"),
        ("AddFloat 1 2", "3"),
        ("SubtractInt 2 .half", "0"),
        ("SubtractFloat 2 .half", "-0.5"),
        ("MultiplyInt .half .half", "6"),
        ("MultiplyFloat .half .half", "6.25"),
        ("MultiplyInt", "1"),
        ("DivideInt .Index 2", "3"),
        ("DivideInt -7 2", "-3"),
        ("DivideFloat .Index 2", "3.5"),
        ('DivideFloat "7" 2', "3.5"),
        ("div .Index 2", "3"),
        ("Mod .Index .nodes", "3"),
        ("Mod -7 4", "-3"),
        ("mod .Index .nodes", "3"),
        ("Int .half", "2"),
        ('JSON "a\\"b"', '"a\\"b"'),
        ("JSON .items", '["a","b"]'),
        ("JSON nil", "null"),
        ("and 1 0 2", "0"),
        ("and 1 2", "2"),
        ("or .empty 0 3", "3"),
        ("or nil .empty", ""),
        ("not .empty", "true"),
        ("eq .Index 8 7", "true"),
        ("eq .kind `double`", "false"),
        ("ne 1 2", "true"),
        ("lt 1 2", "true"),
        ("le 2 2", "true"),
        ("gt 1 2", "false"),
        ('ge "b" "a"', "true"),
        ("len .items", "2"),
        ('len "ä"', "2"),
        ("index .items 1", "b"),
        ('index .map "inner" "leaf"', "x"),
        ("print 1 true .half", "1true2.5"),
    ],
)
def test_functions_of_a_template_have_the_values_of_go(action: str, value: str) -> None:
    assert render(f"{{{{{action}}}}}") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pod-{{.Index}}-of-{{ .Count }}", "pod-7-of-20"),
        ("{{AddInt 7000 (Mod .Index (DivideInt .Count .nodes))}}", "7002"),
        ("{{ .Index | AddInt 1 | MultiplyInt 10 }}", "80"),
        ("{{(or .missing 1) | Int}}", "1"),
        ("{{.map.inner.leaf}}{{ $.kind }}", "xsingle"),
        ("{{$n := DivideInt .Index 2}}{{$n}}{{$n = 9}}{{$n}}", "39"),
        ("a {{- 1 -}} b", "a1b"),
        ("a {{/* nothing, not even }} */}}b", "a b"),
        ("{{-3}}", "-3"),
        ('{{"}}"}}', "}}"),
        ('{{"a\\tb\\\\"}}', "a\tb\\"),
        ("{{true}}{{1e3}}{{1.5}}", "true10001.5"),
    ],
)
def test_values_and_pipelines(text: str, value: str) -> None:
    assert render(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{if .yes}}a{{else}}b{{end}}", "a"),
        ("{{if .missing}}a{{else}}b{{end}}", "b"),
        ("{{if .missing}}a{{end}}|", "|"),
        ('{{if .empty}}a{{else if eq .kind "single"}}b{{else}}c{{end}}', "b"),
        ("{{if .empty}}a{{else if .empty}}b{{else}}c{{end}}d", "cd"),
        ("{{if 1}}{{if 0}}a{{else}}b{{end}}c{{end}}", "bc"),
        ("{{range .items}}<{{.}}{{$.Index}}>{{end}}", "<a7><b7>"),
        ("{{range .missing}}x{{else}}none{{end}}", "none"),
        ("{{range $i := 2}}<{{$i}}>{{end}}{{range $v := .items}}<{{$v}}{{.}}>{{end}}", "<0><1><aa><bb>"),
        ("{{range $i, $v := .items}}<{{$i}}{{$v}}>{{end}}", "<0a><1b>"),
        ("{{with .map.inner}}{{.leaf}}{{end}}{{with .empty}}x{{else with .kind}}{{.}}{{end}}", "xsingle"),
        ("{{$x := 1}}{{if 1}}{{$x := 2}}{{$x}}{{end}}{{$x}}", "21"),
        ("{{$x := 1}}{{if 1}}{{$x = 2}}{{end}}{{$x}}", "2"),
    ],
)
def test_blocks_of_a_template_are_rendered_as_in_go(text: str, value: str) -> None:
    assert render(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb {{.nothing}}", "t.yaml:2: {{.nothing}} has no value"),
        ("{{DivideInt 1 0}}", "t.yaml:1: DivideInt: division by zero"),
        ("{{Mod 1 0.5}}", "t.yaml:1: Mod: division by zero"),
        ("{{AddInt .kind}}", 't.yaml:1: AddInt: "single" is not a number'),
        ("{{AddInt .yes}}", "t.yaml:1: AddInt: true is not a number"),
        ("{{AddInt .nothing 1}}", "t.yaml:1: AddInt: nil is not a number"),
        ('{{Int "inf"}}', "t.yaml:1: Int: inf is not an integer"),
        ("{{MultiplyFloat 1e308 1e308 | Int}}", "t.yaml:1: Int: inf is not an integer"),
        ("{{SubtractInt 1}}", "t.yaml:1: SubtractInt: wrong arguments (1)"),
        ("{{eq 1}}", "t.yaml:1: eq: missing argument"),
        ('{{eq 1 "1"}}', 't.yaml:1: eq: 1 and "1" have types that cannot be compared'),
        ("{{lt .items .items}}", "t.yaml:1: lt: ['a', 'b'] has no order"),
        ("{{len 3}}", "t.yaml:1: len: 3 has no length"),
        ("{{index .items 2}}", "t.yaml:1: index: ['a', 'b'] has no item 2"),
        ("{{.kind.more}}", "t.yaml:1: single has no field more"),
        ('{{range "a"}}{{end}}', "t.yaml:1: range can't iterate over a"),
        ("{{$x}}", "t.yaml:1: undefined variable $x"),
        ("{{$x = 1}}", "t.yaml:1: undefined variable $x"),
    ],
)
def test_errors_when_rendering(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        render(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n{{.Index", "t.yaml:3: unexpected '{{'"),
        ("{{}}", "t.yaml:1: missing value"),
        ("{{nope 1}}", 't.yaml:1: function "nope" not defined'),
        ("{{AddInt nope}}", 't.yaml:1: function "nope" not defined'),
        ("{{1 2}}", "t.yaml:1: 1 is not a function, and takes no argument"),
        ("{{1 | .Index}}", "t.yaml:1: .Index is not a function, and takes no argument"),
        ("{{(1}}", "t.yaml:1: unclosed left parenthesis"),
        ("{{1)}}", "t.yaml:1: unexpected ')'"),
        ("{{.Index := 1}}", "t.yaml:1: cannot assign to .Index"),
        ("{{AddInt 1 , 2}}", "t.yaml:1: unexpected ','"),
        ("{{AddInt 1 %}}", "t.yaml:1: unexpected '%'"),
        ("a\n{{if 1}}", "t.yaml:2: the block of line 2 has no end"),
        ("{{if 1}}{{else}}", "t.yaml:1: the block of line 1 has no end"),
        ("{{end}}", "t.yaml:1: end without a block"),
        ("{{else}}", "t.yaml:1: else without a block"),
        ("{{if 1}}{{else range .items}}{{end}}", "t.yaml:1: unexpected range after else"),
    ],
)
def test_errors_when_reading(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text, "t.yaml")
    assert str(refused.value) == message


def test_the_names_that_a_template_reads() -> None:
    text = "{{.a}}{{if .b}}{{AddInt .c (Int .d)}}{{end}}{{$x := .e}}{{$x.f}}{{range $.g}}{{end}}"
    assert parse(text, "t.yaml").fields == set("abcdeg")


@pytest.mark.parametrize(
    "text", ['{{ "', "{{ `", '{{ "a" "', "{{ /* ", '{{ x "' * 1000, "{{ /*" * 1000, "{{ " + '"' * 40_001]
)
def test_actions_without_an_end(text: str) -> None:
    """Each is looked at once: to try all pairs of quotes takes longer than anybody waits."""
    with pytest.raises(InputError, match=r"^t\.yaml:2: "):
        parse("a\n" + text, "t.yaml")


def test_braces_and_marks_in_strings_end_nothing() -> None:
    assert render('{{ "}}" }}|{{ `-}}"` }}|{{- /* }} " */ -}} |{{"a\\"}}b"}}') == '}}|-}}"||a"}}b'
