"""What a changed file has made again: its users and nothing else."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from building import inputs
from building.flags import INCLUDES, LEVELS, LOOPS
from tests.house.source import ROOT, files, name, strip_cython

MODULES = [name(path) for path in files(".pyx", under="pyx")]
KERNELS = [name(path) for path in files(".c", under="csrc")]


pytestmark = pytest.mark.usefixtures("in_the_repository")


@cache
def translation(module: str) -> frozenset[str]:
    return frozenset(inputs.of_translation(module))


def users(changed: str) -> set[str]:
    """The modules that are translated and compiled again if a file changes."""
    return {one for one in MODULES if changed in translation(one)}


@cache
def cimports() -> dict[str, set[str]]:
    """By the name of a module, the files that cimport from it."""
    found = defaultdict[str, set[str]](set)
    for path in files(".pyx", ".pxd", under="pyx"):
        for module in re.findall(r"^\s*from\s+(\S+)\s+cimport\b", path.read_text(), re.MULTILINE):
            found[module].add(name(path))
    return found


def cimporting(declarations: str) -> set[str]:
    """The files that cimport from a .pxd by its own name."""
    return cimports()[".".join(Path(declarations).relative_to("pyx").with_suffix("").parts)]


def test_a_pxd_that_one_other_module_cimports_has_two_modules_made_again() -> None:
    pairs = {}
    for path in files(".pxd", under="pyx"):
        own, others = name(path.with_suffix(".pyx")), cimporting(name(path))
        if own in MODULES and len(others - {own}) == 1 and others <= set(MODULES):
            pairs[name(path)] = {own} | others
    assert pairs
    assert {path: users(path) for path in pairs} == pairs


def test_a_pyx_has_its_own_module_made_again() -> None:
    assert {one: users(one) for one in MODULES} == {one: {one} for one in MODULES}


def test_each_pxd_has_users() -> None:
    """Packages whose __init__.pxd is a docstring alone are read by no module."""
    declared = [path for path in files(".pxd", under="pyx") if strip_cython(path.read_text()).strip("'\n ")]
    assert [name(path) for path in declared if not users(name(path))] == []


def test_a_pxd_reaches_those_that_cimport_it_through_their_package() -> None:
    package = "pyx/moorage/_core/state/__init__.pxd"
    assert users("pyx/moorage/_core/state/ledger.pxd") >= users(package) != set()


def test_a_kernel_has_no_module_and_no_other_kernel_made_again() -> None:
    read = [inputs.of_translation(one) | inputs.of_module(one) for one in MODULES]
    read += [inputs.of_kernels(one) for one in KERNELS]
    assert set(KERNELS).isdisjoint(set().union(*read))


def test_kernels_are_made_again_with_the_headers_that_the_compiler_reads() -> None:
    folders = [f"-I{one}" for one in INCLUDES]
    done = subprocess.run(
        ["cc", "-MM", *folders, *KERNELS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rules = done.stdout.replace("\\\n", " ").splitlines()
    told = {source: set(headers) for _, source, *headers in map(str.split, rules)}
    assert {one: inputs.of_kernels(one) for one in KERNELS} == told


def test_modules_are_made_again_with_the_headers_that_they_declare() -> None:
    direct = inputs.of_module("pyx/moorage/_core/decide/native_plugin.pyx")
    assert {"csrc/native.h", "python/moorage/include/moorage/plugin.h"} <= direct
    assert inputs.of_module("pyx/moorage/_core/base/label_syntax.pyx") == set()


def test_levels_are_those_of_modules() -> None:
    modules = {".".join(Path(one).relative_to("pyx").with_suffix("").parts) for one in MODULES}
    assert LEVELS.keys() <= modules


def test_modules_that_call_kernels_without_the_gil_are_built_for_loops() -> None:
    """A kernel is called with the GIL where one call does the work of a loop."""
    found = set()
    for path in files(".pyx", under="pyx"):
        code = strip_cython(path.read_text())
        if re.search(r"\bwith nogil\b", code) and re.search(r"\bmr_\w+\(", code):
            found.add(".".join(path.relative_to(ROOT / "pyx").with_suffix("").parts))
    assert found
    assert [one for one in sorted(found) if LEVELS.get(one) != LOOPS] == []
