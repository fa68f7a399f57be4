"""Mutants: which there are, that a place is changed and nothing else, and how each is made in one process."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.campaign.mutants import __main__ as main
from tests.campaign.mutants import core, functions, kernels
from tests.campaign.mutants.__main__ import sampled
from tests.campaign.mutants.bits import packed, unpacked
from tests.campaign.mutants.cython import of_cython
from tests.campaign.mutants.mutant import ROOT, Mutant
from tests.campaign.mutants.places import (
    EQUIVALENT,
    ROOMS,
    mutants_of,
    of_c,
    of_python,
    reasons,
)

PYTHON = """
def f(é: Literal[1], b):  # a < b
    if é < b and not b:
        return [é + 1, True]
    g(b)
"""
C = """
#define F(x) (x < 1)
/* a < b */
static const int size = 1 + 2;
int f(int a, int b)
{
    return a <= b && a != 2 ? a : b;
}
int g(const int *from, const int *to)
{
    int sum = 0;
    for (; from != to; from++) {
        if (!*from) continue;
        sum += *from;
    }
    if (to - from) return 0;
    return sum;
}
"""


def changed(text: str, mutant: Mutant) -> str:
    data = text.encode()
    assert data[mutant.start : mutant.end].decode() == mutant.old
    return functions.changed(mutant, data)


def test_mutants_of_python() -> None:
    found = [changed(PYTHON, one) for one in of_python("f.py", PYTHON)]
    assert len(found) == len(set(found)) == 7
    for text in found:
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(PYTHON))


def test_mutants_of_c() -> None:
    found = {
        (number, line.strip())
        for one in of_c("f.c", C)
        for number, line in enumerate(changed(C, one).splitlines())
        if line != C.splitlines()[number]
    }
    assert found == {
        (6, "return a < b && a != 2 ? a : b;"),
        (6, "return a <= b || a != 2 ? a : b;"),
        (6, "return a <= b && a == 2 ? a : b;"),
        (6, "return a <= b && a != 2 ? b : a;"),
        (11, "for (; from == to; from++) {"),
        (11, "for (; from != to; from--) {"),
        (12, "if (*from) continue;"),
        (12, "if (!*from) break;"),
        (13, "sum -= *from;"),
        (15, "if (to + from) return 0;"),
        (15, "if (to - from) return 1;"),
    }


def test_each_room_has_mutants_and_tests() -> None:
    assert all(next(mutants_of([room]), None) for room in ROOMS)
    assert [test for tests in ROOMS.values() for test in tests if not (ROOT / test).exists()] == []


# ---- all mutants of C in one library -----------------------------------------------------------------------


def test_a_switch_makes_one_mutant_of_c(tmp_path: Path) -> None:
    """The library with all mutants does as that of each mutant alone."""

    def library(name: str, text: str) -> ctypes.CDLL:
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        target = tmp_path / f"{name}.so"
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
        return ctypes.CDLL(str(target))

    text = C.partition("int g(")[0]
    mutants = list(of_c("f.c", text))
    declared = kernels.SWITCH + f"int mr_mutant = -1;\nunsigned char mr_reached[{len(mutants)}];\n"
    switched = library("all", declared + kernels.with_alternatives(text, enumerate(mutants)))
    chosen = ctypes.c_int.in_dll(switched, "mr_mutant")
    reached = (ctypes.c_ubyte * len(mutants)).in_dll(switched, "mr_reached")
    arguments = [(a, b) for a in range(4) for b in range(4)]
    for number, text_of_one in enumerate([*(changed(text, one) for one in mutants), text]):
        alone = library(f"one{number}", text_of_one)
        chosen.value = number if number < len(mutants) else -1
        assert [switched.f(*pair) for pair in arguments] == [alone.f(*pair) for pair in arguments]
    assert bytes(reached) == b"\1" * len(mutants)


def test_the_compiler_names_the_mutants_that_it_refuses(tmp_path: Path) -> None:
    mutants = list(of_c("f.c", C))
    text = kernels.SWITCH + kernels.with_alternatives(C, enumerate(mutants))
    source = tmp_path / "f.c"
    source.write_text(text)
    done = subprocess.run(
        ["cc", "-w", "-fsyntax-only", str(source)], capture_output=True, text=True, check=False
    )
    assert [mutants[number].new for number in kernels.refused(text, done.stderr)] == ["to + from"]


# ---- mutants of Cython -------------------------------------------------------------------------------------

CYTHON = """
cdef class Row:
    cdef int place(self, int a, int b) except -1 nogil:
        if a < b[0] and <int>b > a: return 1
        self.a = a
        a += 1
        self.a, a = a, 1
        while 0 <= a < b:
            self.place(a, b)
            break
        return 0
"""
# Both are Python as well, so that what the switch chooses can be seen.
SWITCHED = """
def f(a, b):
    seen = []
    if a < b and not b > 2:
        seen.append(a)
    for _ in range(b):
        b -= 1
        if a == b:
            continue
        seen.append(b)
    seen[0:1] = [b]
    return g(a), g(b), seen
def g(a):
    if a >= 2:
        return True
    return False
"""


def test_mutants_of_cython() -> None:
    found = {
        (number, line.strip())
        for one in of_cython("f.pyx", CYTHON)
        for number, line in enumerate(changed(CYTHON, one).splitlines())
        if line != CYTHON.splitlines()[number]
    }
    assert found == {
        (3, "if not (a < b[0] and <int>b > a): return 1"),
        (3, "if a <= b[0] and <int>b > a: return 1"),
        (4, "pass"),
        (5, "pass"),
        (7, "while not (0 <= a < b):"),
        (8, "pass"),
        (9, "pass"),
        (10, "return 1"),
    }


def test_a_switch_makes_one_mutant_of_cython() -> None:
    def results(text: str, active: int = -1) -> list[object]:
        names: dict[str, Any] = {"MR_IS": lambda number: number == active}
        exec(text, names)
        return [outcome(names["f"], a, b) for a in range(4) for b in range(4)]

    def outcome(function: Callable[..., object], *arguments: int) -> object:
        try:
            return function(*arguments)
        except (UnboundLocalError, TypeError, IndexError) as error:
            return str(error)

    mutants = list(of_cython("f.pyx", SWITCHED))
    switched = kernels.with_alternatives(SWITCHED, enumerate(mutants), core.form)
    assert results(switched) == results(SWITCHED)
    for number, mutant in enumerate(mutants):
        alone = results(changed(SWITCHED, mutant))
        assert results(switched, number) == alone != results(SWITCHED), mutant


# ---- a mutant of Python in a process that has its module ---------------------------------------------------

MODULE = """
from functools import cache

LIMIT = 3


class Counter:
    limit: int = LIMIT + 1

    def __init__(self, start=2):
        self.now = start

    @property
    def is_full(self):
        return self.now >= self.limit


def adder(by):
    def add(value):
        return value + by
    return add


add_two = adder(2)


@cache
def double(value):
    if not value:
        return 0
    return value + value
"""
CHECKS: list[Callable[[Any], object]] = [
    lambda module: module.Counter(4).is_full,
    lambda module: module.add_two(5),
    lambda module: module.adder(1)(1),
    lambda module: module.double(4),
    lambda module: module.double(0),
]


def loaded(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def test_code_is_replaced_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with replaced functions does as the changed module; what an import does is left out."""
    monkeypatch.setattr(functions, "ROOT", tmp_path)
    by_import = set()
    mutants = list(of_python("one.py", MODULE))
    for mutant in mutants:
        module = loaded(tmp_path / "one.py", MODULE)
        if not functions.replace(mutant, functions.functions_of(tmp_path)):
            by_import.add((mutant.line, mutant.old))
            continue
        other = loaded(tmp_path / "other.py", changed(MODULE, mutant))
        assert [one(module) for one in CHECKS] == [one(other) for one in CHECKS], mutant
    assert by_import == {(4, "3"), (8, " + "), (8, "1"), (10, "2"), (24, "2")}
    assert len(mutants) == 11


def test_lines_of_a_statement() -> None:
    places = functions.statement_lines(list(of_python("f.py", PYTHON)), PYTHON)
    assert {(lines.start, lines.stop) for lines in places} == {(3, 4), (4, 5), (5, 6)}


def test_listed_mutants_are_there() -> None:
    """Each has one of the reasons; a change of the source must not leave entries behind."""
    listed = EQUIVALENT.read_text()
    found = reasons(list(mutants_of(room for room in ROOMS if f'"{room}/' in listed)))
    assert found
    assert {reason.partition(":")[0] for reason in found.values()} <= {"equivalent", "time", "text", "open"}


def test_a_listed_mutant_that_is_not_there_is_told() -> None:
    with pytest.raises(
        LookupError, match=r"equivalent\.toml: no mutant \('python/moorage/(engine/cache|compat)"
    ):
        reasons(list(mutants_of(["python/moorage/engine/queue"])))


def test_files_that_differ_from_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        author = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True)

    monkeypatch.setattr(main, "ROOT", tmp_path)
    git("init", "-q")
    for name in ("same", "edited", "late"):
        (tmp_path / name).write_text(name)
    git("add", "same", "edited")
    git("commit", "-qm", "first")
    (tmp_path / "edited").write_text("anew")
    git("add", "late")
    git("commit", "-qm", "second")
    assert main.changed_since("HEAD~") == {"edited", "late"}
    with pytest.raises(subprocess.CalledProcessError):
        main.changed_since("absent")


def test_which_mutants_a_test_reaches_is_kept_as_text() -> None:
    for bits in (0, 1, 1 << 30_000 | 5):
        assert unpacked(packed(bits)) == bits


def test_a_sample_is_by_seed_and_hardly_depends_on_other_mutants() -> None:
    mutants = list(mutants_of(["python/moorage/engine/queue"]))
    some = list(range(len(mutants)))
    sample = sampled(mutants, some, 1)[:40]
    assert len(set(sample)) == 40
    assert sampled(mutants, some, 2)[:40] != sample
    fewer = mutants[10:]
    again = {str(fewer[number]) for number in sampled(fewer, list(range(len(fewer))), 1)[:40]}
    assert len(again & {str(mutants[number]) for number in sample}) > 30
