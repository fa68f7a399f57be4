"""What import-linter does not see: what compiled modules import, and who imports them.

The arrows between Python modules are in ``imports.toml``, which `make lint` checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from grimp import ImportGraph
from importlinter import ContractCheck

from tests.house.circles import CirclesContract, circle
from tests.house.source import files, logical_lines, name

CORE = ("moorage._core.", "moorage.errors.")
BELOW_THE_CACHE = ("objects", "tables", "store")


def cython_imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each import and cimport of a module of ``moorage._core``."""
    for number, _, line in logical_lines(text):
        if match := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(.+)", line):
            base = re.sub(r"^\.\.", "moorage.", re.sub(r"^\.(?!\.)", "moorage._core.", match[1]))
            for item in match[2].strip("() ").split(","):
                yield number, f"{base.rstrip('.')}.{item.split()[0]}" if item.strip() else base
        elif match := re.match(r"\s*c?import\s+(.+)", line):
            yield from ((number, item.split()[0]) for item in match[1].split(","))


def upward(text: str) -> list[str]:
    """Line and name of the imports of a compiled module that lead out of the core."""
    return [
        f"{number} imports {target}"
        for number, target in cython_imports(text)
        if target.startswith("moorage.") and not f"{target}.".startswith(CORE)
    ]


def outside_base(text: str) -> list[str]:
    """Lines of Python code that import of the core what is not in its base."""
    return re.findall(r"^\s*((?:from|import)\s.*\b_core\b(?!\.base\b).*)", text, re.MULTILINE)


def test_the_core_imports_nothing_above_it_but_errors() -> None:
    sources = files(".pyx", ".pxd", under="pyx")
    assert sources
    assert [f"{name(path)}:{line}" for path in sources for line in upward(path.read_text())] == []


def test_rooms_below_the_cache_take_the_base_of_the_core_alone() -> None:
    sources = [path for room in BELOW_THE_CACHE for path in files(".py", under=f"python/moorage/{room}")]
    assert sources
    assert [f"{name(path)}: {line}" for path in sources for line in outside_base(path.read_text())] == []


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ("from moorage._core.state.ledger cimport (Ledger,\n    Row)", True),
        ("from .ledger cimport Ledger", True),
        ("from . cimport ledger", True),
        ("from ..errors import InputError", True),
        ("from ..objects.pod import Pod", False),
        ("    import moorage.engine.cache as c", False),
        ("cimport numpy as np, moorage._core.state.view", True),
        ("from libc.stdint cimport int64_t", True),
        ('"""\nfrom moorage.engine.cache import x\n"""', True),
        ("from moorage import objects", False),
    ],
)
def test_an_import_out_of_the_core_is_found(line: str, ok: bool) -> None:
    assert (upward(line) == []) == ok


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ("from moorage._core.base.quantity import Quantity", True),
        ("    from moorage._core.state import ledger", False),
        ("from moorage import _core", False),
        ("from moorage.engine.cache import SchedulerCache", True),
    ],
)
def test_an_import_of_more_than_the_base_is_found(line: str, ok: bool) -> None:
    assert (outside_base(line) == []) == ok


def c_includes(text: str) -> set[str]:
    """Names of the headers that a C file includes from its own folder."""
    return {include.removesuffix(".h") for include in re.findall(r'#include "(\w+\.h)"', text)}


def test_no_c_file_and_no_compiled_module_is_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in files(".c", ".h", under="csrc"):
        graph.setdefault(path.stem, set()).update(c_includes(path.read_text()) - {path.stem})
    assert circle(graph) == []
    modules = {path.stem for path in files(".pyx", under="pyx")}
    compiled: dict[str, set[str]] = {}
    for path in files(".pyx", ".pxd", under="pyx"):
        named = {part for _, target in cython_imports(path.read_text()) for part in target.split(".")}
        compiled.setdefault(path.stem, set()).update(named & modules - {path.stem})
    assert circle(compiled) == []
    assert compiled["placer"] >= {"decider", "search"}


def test_an_include_is_found() -> None:
    assert c_includes('#include <stdint.h>\n#include "score.h"\n') == {"score"}


# ---- the contract of import-linter: circles of imports ----------------------------------------------------

CHAIN = [("m.a", "m.b"), ("m.b", "m.c")]


def checked(imports: list[tuple[str, str]]) -> ContractCheck:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    options = {"name": "Circles", "id": "c", "type": "circles"}
    return CirclesContract("Circles", {"root_packages": ["m"]}, options).check(graph, verbose=False)


def test_a_chain_of_imports_is_no_circle() -> None:
    assert checked(CHAIN).kept


def test_a_circle_is_shown_in_the_order_of_its_imports() -> None:
    check = checked([*CHAIN, ("m.c", "m.a"), ("m.d", "m.a")])
    assert not check.kept
    first, *others = check.metadata["circle"]
    assert others[-1] == first
    assert {(first, others[0]), *zip(others, others[1:], strict=False)} == {*CHAIN, ("m.c", "m.a")}  # noqa: RUF007
