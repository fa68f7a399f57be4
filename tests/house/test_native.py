"""What C and Cython sources may do, and that each compiled module is built and typed."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import ROOT, files, logical_lines, name, strip_c, strip_cython

BUILTIN_CLASSES = "object list dict tuple str bytes bytearray set frozenset type slice memoryview ndarray"
PYTHON_TYPES = set(BUILTIN_CLASSES.split())
# An empty type means object: `cdef f(x)`.
FUNCTION = re.compile(
    r"\s*(?:cdef|cpdef)\s+(?!class\b|extern\b|struct\b|enum\b|union\b)"
    r"(?:(?:inline|public|api)\s+)*(?P<type>[^=()]*?)\b(?P<name>\w+)\s*\((?P<rest>.*)$"
)


def undecided(text: str, classes: set[str], *, declarations: bool) -> list[str]:
    """The functions that neither return a Python object nor say what an exception does."""
    wrong = []
    extern = -1
    for _, _, line in logical_lines(text):
        indent = len(line) - len(line.lstrip())
        extern = -1 if indent <= extern else extern
        if re.match(r"\s*cdef extern\b", line):
            extern = indent
        match = FUNCTION.match(line)
        if extern >= 0 or not match or not (declarations or line.rstrip().endswith(":")):
            continue
        returned = match["type"].strip()
        safe = returned == "" or returned.endswith("]") or returned.split(".")[-1] in classes
        tail = match["rest"].rpartition(")")[2]
        if not safe and not re.search(r"\b(noexcept|except)\b", tail):
            wrong.append(match["name"])
    return wrong


def forbidden_in_c(text: str) -> list[str]:
    """Python, allocation and mutable state in a C source."""
    wrong = re.findall(r"#\s*include\s*[<\"](Python\.h)", text)
    code = strip_c(text)
    wrong += re.findall(r"\b((?:malloc|calloc|realloc|reallocarray|aligned_alloc|free)\s*\()", code)
    wrong += [line.strip() for line in statics(code) if not re.search(r"\bconst\b", line)]
    return wrong


def statics(code: str) -> Iterator[str]:
    """Declarations of objects with static storage: at file level, or inside a function as `static`."""
    depth, statement = 0, ""
    for char in code:
        if char == "{":
            depth += 1
            if depth == 1:
                statement += "{}"
                continue
        if char == "}":
            depth -= 1
            if depth == 0 and re.search(r"\)\s*\{\}$", statement):
                statement = ""  # the end of a function
        elif char == ";" and depth == 0:
            declared = re.sub(r"^\s*extern\s*\"?\s*", "", statement).strip()
            harmless = r"typedef\b|(struct|union|enum)\b[^{=]*(\{\})?$|_Static_assert\b|[^=]*\("
            if declared and not re.match(harmless, declared):
                yield declared
            statement = ""
        elif depth == 0:
            statement += char
    inner = re.sub(r"^(?:static|extern)\b", " ", code, flags=re.MULTILINE)
    yield from re.findall(r"\bstatic\s+(?!inline\b)[^;(){}]*[;=]", inner)


def cython_classes() -> set[str]:
    found = set(PYTHON_TYPES)
    for path in files(".pyx", ".pxd", under="pyx"):
        text = strip_cython(path.read_text())
        found.update(re.findall(r"^\s*cdef (?:public )?class (\w+)", text, re.MULTILINE))
    return found


def test_each_cython_function_says_what_an_exception_does() -> None:
    classes = cython_classes()
    wrong = {
        name(path): functions
        for path in files(".pyx", ".pxd", under="pyx")
        if (functions := undecided(path.read_text(), classes, declarations=path.suffix == ".pxd"))
    }
    assert wrong == {}


POOL = {"csrc/parallel.c": ["static struct {} pool = {}", "static atomic_flag is_taken = ATOMIC_FLAG_INIT"]}
"""The pool of threads, which a process has once."""


def test_c_is_pure() -> None:
    found = {name(path): forbidden_in_c(path.read_text()) for path in files(".c", ".h", under="csrc")}
    assert {path: lines for path, lines in found.items() if lines} == POOL


def stem(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def test_compiled_modules_have_stubs() -> None:
    core = ROOT / "python/moorage/_core"
    modules = {stem(path, ROOT / "pyx/moorage/_core") for path in files(".pyx", under="pyx")}
    stubs = {stem(path, core) for path in core.rglob("*.pyi")} - {"__init__"}
    assert modules == stubs
    built = {stem(path.with_name(path.name.split(".")[0]), core) for path in core.rglob("*.so")}
    shared = {"libmoorage_kernels", "_cython_utility"}
    assert built - shared <= stubs, "compiled modules without a source: run `make clean`"


def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The extensions that setup.py declares by name, without building anything."""
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **rest: given.update(rest))
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return {extension.name: extension for extension in given["ext_modules"]}


def test_setup_builds_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    found = declared(monkeypatch)
    kernels = found.pop("moorage._core.libmoorage_kernels")
    del found["moorage._core._cython_utility"]
    assert {name(path) for path in files(".pyx", under="pyx")} == {one.sources[0] for one in found.values()}
    assert {name(path) for path in files(".c", under="csrc")} == set(kernels.sources)


def test_what_sees_infinity_is_not_built_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    finite = [one for one in declared(monkeypatch).values() if "-ffinite-math-only" in one.extra_compile_args]
    assert finite
    sources = [source for extension in finite for source in extension.sources]
    assert [source for source in sources if "INFINITY" in (ROOT / source).read_text()] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("cdef int f(int x):\n    return 1\n", ["f"]),
        ("cdef void f(int x) noexcept nogil:\n    pass\n", []),
        ("cpdef int64_t f(object x) except? -1:\n    pass\n", []),
        ("cdef inline double f(int x, except_y) nogil:\n    pass\n", ["f"]),
        ("cdef f(x):\n    pass\n", []),
        ("cdef Ledger f(\n    int x,\n):\n    pass\n", []),
        ("cdef np.ndarray f(x): # except\n    pass\n", []),
        ("cdef int64_t[::1] f(x):\n    pass\n", []),
        ("cdef int y = f(x)\n", []),
        ("cdef class K(Base):\n    cpdef bint f(self):\n        pass\n", ["f"]),
        ("cdef int* f(int x):\n    pass\n", ["f"]),
    ],
)
def test_a_function_that_leaves_exceptions_open_is_seen(text: str, wrong: list[str]) -> None:
    assert undecided(text, PYTHON_TYPES | {"Ledger"}, declarations=False) == wrong


def test_a_declaration_that_leaves_exceptions_open_is_seen() -> None:
    text = (
        'cdef extern from "a.h" nogil:\n    cdef int f(int x)\n\ncdef int g(int x)\ncdef int h() except -1\n'
    )
    assert undecided(text, PYTHON_TYPES, declarations=True) == ["g"]


@pytest.mark.parametrize(
    "text",
    [
        "#include <Python.h>\n",
        "int *f(void) { return malloc(3); }\n",
        "void f(void *p) { free(p); }\n",
        "int counter;\n",
        "static int64_t table[4] = {1, 2};\n",
        "int f(void) {\n    static int calls = 0;\n    return ++calls;\n}\n",
        "struct s { int a; } instance;\n",
        "int f(void) { return 1; }\nint counter = 0;\n",
    ],
)
def test_c_impurity_is_seen(text: str) -> None:
    assert forbidden_in_c(text) != []


def test_pure_c_is_accepted() -> None:
    text = (
        "#include <stdint.h>\n"
        "/* malloc(1) */\n"
        "typedef struct { int a; } s;\n"
        "struct t { int b; };\n"
        "enum e { A, B };\n"
        "static const int table[] = { 1, 2 };\n"
        "int f(const s *x, int n);\n"
        "static inline int g(int x) {\n    int y = x; static const int z = 1;\n    return y + z;\n}\n"
        '_Static_assert(sizeof(s) == 4, "s");\n'
        "int f(const s *x, int n) {\n    return g(x->a) + n;\n}\n"
    )
    assert forbidden_in_c(text) == []
