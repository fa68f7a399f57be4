"""Which mutants there are: operators, comparisons, constants, conditions and calls of Python and C files."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tree_sitter
import tree_sitter_c

from tests.campaign.mutants.cython import of_cython
from tests.campaign.mutants.mutant import ROOT, Mutant, offsets

PARTS = {
    "scheduler": [
        "tests/tables/test_results.py",
        "tests/preemption/test_equal_preemptors.py",
    ],
    "queue": ["tests/scheduler/test_queueing.py", "tests/scheduler/test_run.py"],
    "preemption": ["tests/scheduler/whole", "tests/scheduler/groups"],
    "cache": ["tests/core/state"],
    "requirements": ["tests/explain"],
}
"""Part of the engine to tests beside those of its own folder that have to kill its mutants."""
FOLDERS = {
    "kube": ["objects", "cel", "releases"],
    "store": ["store"],
    "controllers": ["controllers"],
    "cluster": ["changes", "scheduler"],
    "autoscalers": ["autoscaling"],
    "answers": ["explain", "planning", "report"],
    "sim": ["sim", "gym"],
    "live": ["serve", "store/api", "cli/twin"],
    "cli": ["cli"],
    "compat": ["compat", "multi"],
}
"""Room to folders of tests."""
ROOMS = (
    {
        f"python/moorage/engine/{part.name}": [
            *([f"tests/{part.name}"] if (ROOT / "tests" / part.name).is_dir() else []),
            *PARTS.get(part.name, ()),
        ]
        for part in sorted((ROOT / "python/moorage/engine").iterdir())
        if part.is_dir() and not part.name.startswith("__")
    }
    | {f"python/moorage/{room}": [f"tests/{name}" for name in names] for room, names in FOLDERS.items()}
    | {room: ["tests/core", "tests/preemption", "tests/scheduler"] for room in ("csrc", "pyx")}
)
"""Source folder to the tests that have to kill its mutants."""
OUTER = ["tests/conformance", "tests/cases"]
"""Vectors and cases, which may kill the mutants of any room."""


EQUIVALENT = Path(__file__).with_name("equivalent.toml")


COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
CALCULATED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*")}
IN_C = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-",
    "-": "+", "++": "--", "--": "++", "+=": "-=", "-=": "+=",
}  # fmt: skip
C = tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language()))


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """A syntax tree without what is read by type checkers alone, and without decorators: `frozen` and `slots`
    of a dataclass change no result."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.AST):
                yield from evaluated(child)


def of_python(file: str, text: str) -> Iterator[Mutant]:
    """The mutants of a Python file."""
    starts, data = offsets(text), text.encode()

    def place(node: Any, end: bool = False) -> int:
        return starts[(node.end_lineno if end else node.lineno) - 1] + (
            node.end_col_offset if end else node.col_offset
        )

    def between(left: Any, right: Any, names: tuple[str, str]) -> Iterator[Mutant]:
        start, end = place(left, True), place(right)
        held = data[start:end].decode()
        if held.count(names[0]) == 1:
            yield Mutant(file, left.end_lineno, start, end, held, held.replace(*names))

    def whole(node: Any, new: str) -> Mutant:
        start, end = place(node), place(node, True)
        return Mutant(file, node.lineno, start, end, data[start:end].decode(), new)

    for node in evaluated(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            yield from between(node.left, node.comparators[0], COMPARED[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            names = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield from between(node.values[0], node.values[1], names)
        elif isinstance(node, ast.BinOp) and type(node.op) in CALCULATED:
            yield from between(node.left, node.right, CALCULATED[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield whole(node, ast.unparse(node.operand))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield whole(node, str(not node.value if isinstance(node.value, bool) else node.value + 1))
        elif isinstance(node, ast.If | ast.While) and not isinstance(
            node.test, ast.Compare | ast.BoolOp | ast.Constant
        ):
            yield whole(node.test, f"(not ({ast.unparse(node.test)}))")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield whole(node, "pass")


def calculated(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes of a C file that are calculated at run time, outermost first."""
    yield node
    for at, child in enumerate(node.children):
        name = node.field_name_for_child(at)
        held = child.text or b""
        if child.type.startswith("preproc_") and child.type not in {
            "preproc_ifdef",
            "preproc_if",
            "preproc_else",
        }:
            continue
        if node.type.startswith("preproc_") and name == "condition":
            continue
        if (node.type, name) in {("array_declarator", "size"), ("case_statement", "value")}:
            continue
        if child.type in {"sizeof_expression", "attribute_specifier", "enumerator"}:
            continue
        if child.type == "declaration" and (
            node.type not in {"compound_statement", "for_statement"} or b"static" in held
        ):
            continue
        if child.type == "call_expression" and held.startswith((b"MR_DEBUG", b"_Static_assert")):
            continue
        yield from calculated(child)


def of_c(file: str, text: str) -> Iterator[Mutant]:
    """The mutants of a C file. Those of statements end with a semicolon; the others are expressions."""
    data = text.encode()

    def changed(node: tree_sitter.Node, *changes: tuple[tree_sitter.Node, str]) -> Mutant:
        new = data[node.start_byte : node.end_byte]
        for part, other in sorted(changes, key=lambda change: -change[0].start_byte):
            at, end = part.start_byte - node.start_byte, part.end_byte - node.start_byte
            new = new[:at] + other.encode() + new[end:]
        return Mutant(file, node.start_point[0] + 1, node.start_byte, node.end_byte, held(node), new.decode())

    def held(node: tree_sitter.Node) -> str:
        return data[node.start_byte : node.end_byte].decode()

    def field(node: tree_sitter.Node, name: str) -> tree_sitter.Node:
        found = node.child_by_field_name(name)
        assert found is not None, (node, name)
        return found

    for node in calculated(C.parse(data).root_node):
        if node.type in {"binary_expression", "update_expression", "assignment_expression"}:
            operator = field(node, "operator")
            if operator.type in IN_C:
                yield changed(node, (operator, IN_C[operator.type]))
        elif node.type == "conditional_expression":
            yes, no = field(node, "consequence"), field(node, "alternative")
            yield changed(node, (yes, held(no)), (no, held(yes)))
        elif node.type == "return_statement" and held(node) in {"return 0;", "return false;"}:
            yield changed(node, (node, "return 1;"))
        elif node.type == "return_statement" and held(node) in {"return 1;", "return true;"}:
            yield changed(node, (node, "return 0;"))
        elif node.type == "continue_statement":
            yield changed(node, (node, "break;"))
        elif node.type == "unary_expression" and held(node).startswith("!"):
            yield changed(node, (field(node, "operator"), ""))
        elif (
            node.type == "expression_statement"
            and node.children[0].type == "call_expression"
            and not held(node).startswith("MR_")
        ):
            yield changed(node, (node, ";"))


LANGUAGES = {"csrc": ("c", of_c), "pyx": ("pyx", of_cython)}


def mutants_of(rooms: Iterable[str]) -> Iterator[Mutant]:
    """The mutants of rooms, in the order of files and places."""
    for room in rooms:
        ending, found = LANGUAGES.get(room, ("py", of_python))
        for path in sorted((ROOT / room).rglob(f"*.{ending}")):
            yield from found(path.relative_to(ROOT).as_posix(), path.read_text())


def reasons(mutants: Sequence[Mutant]) -> dict[str, str]:
    """Why no test kills them, by the name of a mutant, of those that `equivalent.toml` lists.

    Raises
    ------
    LookupError
        There is no such mutant as one that is listed.
    """
    lines = {file: (ROOT / file).read_text().splitlines() for file in {one.file for one in mutants}}
    found = defaultdict(list)
    for one in mutants:
        before, line = ["", *lines[one.file]][one.line - 1 : one.line + 1]
        found[one.file, before.strip(), line.strip(), one.old, one.new].append(str(one))
    out = {}
    for listed in tomllib.loads(EQUIVALENT.read_text())["mutants"]:
        key = listed["file"], *listed["lines"], listed["old"], listed["new"]
        number = listed.get("number", 1)
        if len(found.get(key, ())) < number:
            raise LookupError(f"{EQUIVALENT.name}: no mutant {key}")
        out[found[key][number - 1]] = listed["reason"]
    return out
