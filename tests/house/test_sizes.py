"""Functions of Cython and C are short enough to read in one go; ruff looks at those of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import takewhile

from tests.house.source import files, logical_lines, name, strip_c

FUNCTION_LINES = 50


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def inside(indent: int, item: tuple[int, int, str]) -> bool:
    return indentation(item[2]) > indent or item[2] == "''"  # the further lines of a docstring


def cython_functions(text: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of each function, its docstring not counted."""
    header = re.compile(r"\s*(?:async\s+def|c?p?def)\s+(?!class\b)[^=]*?(\w+)\s*\(.*:\s*$")
    lines = list(logical_lines(text))
    for index, (first, _, line) in enumerate(lines):
        if match := header.match(line):
            body = list(takewhile(partial(inside, indentation(line)), lines[index + 1 :]))
            docs = sum(inner.strip() == "''" for _, _, inner in body)
            yield match[1], (body[-1][1] if body else first) - first + 1 - docs


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    depth, function, first, outside = 0, "", 0, ""
    for number, line in enumerate(strip_c(text).splitlines(), 1):
        for char in line:
            if char == "{":
                if depth == 0:
                    match = re.search(r"(\w+)\s*\([^;{}]*\)\s*$", outside)
                    function, first = (match[1], number) if match else ("", 0)
                depth += 1
            elif char == "}":
                depth -= 1
                if depth == 0 and function:
                    yield function, number - first + 1
                outside = "" if depth == 0 else outside
            elif depth == 0:
                outside = "" if char == ";" else outside + char
        outside += " "


FUNCTIONS = {".pyx": cython_functions, ".c": c_functions, ".h": c_functions}


def test_functions_are_short() -> None:
    long = {
        f"{name(path)}:{function}": lines
        for path in files(*FUNCTIONS)
        for function, lines in FUNCTIONS[path.suffix](path.read_text())
        if lines > FUNCTION_LINES
    }
    assert long == {}


def test_lengths_in_cython() -> None:
    text = (
        "cdef class K(object):\n"
        "    cdef int64_t a(self,\n"
        "                   int x) except -1:\n"
        '        """One.\n'
        "\n"
        '        Two."""\n'
        "        cdef int y = f(x)\n"
        "\n"
        "        # a comment\n"
        "        return y\n"
        "    # before b\n"
        "\n"
        "    cpdef b(self):\n"
        "        return f(1,\n"
        "                 2)\n"
        "def c():\n"
        "    def d():\n"
        "        pass\n"
    )
    assert dict(cython_functions(text)) == {"a": 6, "b": 3, "c": 3, "d": 2}


def test_lengths_in_c() -> None:
    text = (
        "#define F(x) { x }\n"
        "struct s { int a; };\n"
        "static const int t[] = { 1, 2 };\n"
        "int f(int a,\n"
        "      int b)\n"
        "{\n"
        "    if (a) { /* } */ return '}'; }\n"
        "    return b;\n"
        "}\n"
        "static void g(void) {\n"
        "}\n"
    )
    assert dict(c_functions(text)) == {"f": 4, "g": 2}
