"""Mutants: which there are, and that a place is changed and nothing else."""

from __future__ import annotations

import ast

from tests.campaign.mutants import ROOMS, ROOT, Mutant, all_mutants, of_c, of_python

PYTHON = """
def f(é, b):  # a < b
    if é < b and not b:
        return [é + 1, True]
    g(b)
"""
C = """
#define F(x) (x < 1)
/* a < b */
int f(int a, int b)
{
    return a <= b && a != 2 ? a : b;
}
"""


def changed(text: str, mutant: Mutant) -> str:
    data = text.encode()
    assert data[mutant.start : mutant.end].decode() == mutant.old
    return (data[: mutant.start] + mutant.new.encode() + data[mutant.end :]).decode()


def test_mutants_of_python() -> None:
    found = [changed(PYTHON, one) for one in of_python("f.py", PYTHON)]
    assert len(found) == len(set(found)) == 7
    for text in found:
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(PYTHON))


def test_mutants_of_c() -> None:
    found = {changed(C, one).splitlines()[5].strip() for one in of_c("f.c", C)}
    assert found == {
        "return a < b && a != 2 ? a : b;",
        "return a <= b || a != 2 ? a : b;",
        "return a <= b && a == 2 ? a : b;",
        "return a <= b && a != 2 ? b : a;",
    }


def test_each_room_has_mutants_and_tests() -> None:
    assert all(all_mutants([room]) for room in ROOMS)
    assert [test for tests in ROOMS.values() for test in tests if not (ROOT / test).exists()] == []
