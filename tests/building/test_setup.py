"""setup.py makes what is not up to date: the calls of a compiler that only notes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

# Joins its inputs, and writes a line about it.
COMPILER = """#!/bin/sh
inputs=/dev/null
while [ $# -gt 0 ]; do
    case "$1" in
        --version) echo 1; exit;;
        -o) shift; output="$1";;
        *.c|*.o) inputs="$inputs $1";;
    esac
    shift
done
cat $inputs > "$output"
basename "$output" >> calls
"""
SOURCES = {
    "csrc/one.c": '#include "shared.h"\n',
    "csrc/two.c": "",
    "csrc/shared.h": "",
    "pyx/a.pxd": "cdef class A:\n    cdef int x\n",
    "pyx/a.pyx": "cdef class A:\n    pass\n",
    "pyx/b.pyx": 'from a cimport A\n\ncdef extern from "shared.h":\n    pass\n\ndef f(A a):\n    return a\n',
    "pyx/c.pyx": "def g():\n    return 1\n",
}
LIBRARY = "libmoorage_kernels"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copytree(ROOT / "building", tmp_path / "building")
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "core"\nversion = "1"\n[tool.setuptools]\npackages = []\n'
    )
    (tmp_path / "cc").write_text(COMPILER)
    (tmp_path / "cc").chmod(0o755)
    return tmp_path


def call(tree: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call setup.py with the compiler of the tree."""
    environment = {"CC": str(tree / "cc"), "LDSHARED": str(tree / "cc")} | environment
    return subprocess.run(
        [sys.executable, "setup.py", "--quiet", *command],
        cwd=tree,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def built(tree: Path, command: str = "build_ext", **environment: str) -> list[str]:
    """The files that a build has made, in alphabetical order."""
    (tree / "calls").write_text("")
    done = call(tree, command, **environment)
    assert done.returncode == 0, done.stderr
    return sorted(line.partition(".cpython")[0] for line in (tree / "calls").read_text().split())


def change(path: Path) -> None:
    comment = "// new\n" if path.suffix in {".c", ".h"} else "# new\n"
    path.write_text(comment + path.read_text())


@pytest.mark.nightly  # it compiles what test_inputs.py asks about
def test_what_changes_is_made_again_with_its_users_alone(tree: Path) -> None:
    modules = ["a", "a.o", "b", "b.o", "c", "c.o"]
    first = built(tree)
    assert first == sorted(
        [*modules, "_cython_utility", "_cython_utility.o", f"{LIBRARY}.so", "one.o", "two.o"]
    )
    assert built(tree) == []
    change(tree / "csrc/two.c")
    assert built(tree) == [f"{LIBRARY}.so", "two.o"]
    change(tree / "pyx/a.pxd")
    assert built(tree) == ["a", "a.o", "b", "b.o"]
    change(tree / "csrc/shared.h")
    assert built(tree) == ["b.o", "one.o"]
    assert built(tree, CFLAGS="-g1") != []


@pytest.mark.nightly  # it compiles twice
def test_a_library_whose_source_is_gone_is_removed(tree: Path) -> None:
    old, new = tree / "pyx/moorage/_core/old/d.pyx", tree / "pyx/moorage/_core/new/d.pyx"
    old.parent.mkdir(parents=True)
    new.parent.mkdir()
    old.write_text(SOURCES["pyx/c.pyx"])
    (tree / "moorage/_core/old").mkdir(parents=True)
    (tree / "moorage/_core/new").mkdir()
    call(tree, "build_ext", "--inplace")
    before = {path.parent.name for path in tree.rglob("d.*.so")}
    old.rename(new)
    done = call(tree, "build_ext", "--inplace")
    assert done.returncode == 0, done.stderr
    assert len(list(tree.rglob("d.*.so"))) == 2, "in the folder of builds and beside the sources"
    assert (before, {path.parent.name for path in tree.rglob("d.*.so")}) == ({"old"}, {"new"})


@pytest.mark.nightly
def test_a_module_whose_source_is_gone_leaves_the_build(tree: Path) -> None:
    project = tree / "pyproject.toml"
    project.write_text(project.read_text().replace("packages = []", 'packages = ["moorage"]'))
    (tree / "moorage").mkdir()
    for name in ("__init__", "kept", "gone"):
        (tree / f"moorage/{name}.py").write_text("")
    built(tree, "build_py")
    (tree / "moorage/gone.py").unlink()
    built(tree, "build_py")
    assert sorted(one.name for one in tree.glob("build/lib*/moorage/*.py")) == ["__init__.py", "kept.py"]


@pytest.mark.nightly  # it translates
def test_a_fault_of_cython_that_is_gone_is_told_once(tree: Path) -> None:
    translation = tree / "building/translation.py"
    in_every_module = "#define CYTHON_HEX_VERSION"
    changed = f"\nFAULTS = (FAULTS[0]._replace(head='{in_every_module}'),)\n"
    translation.write_text(translation.read_text() + changed)
    done = call(tree, "build_ext")
    assert (done.returncode, done.stderr.count("0 of 1 variants")) == (1, 1), done.stderr


@pytest.mark.nightly  # it translates twice
def test_a_variant_has_a_folder_of_its_own_and_is_up_to_date_there(tree: Path) -> None:
    ordinary = built(tree, "build")
    assert built(tree, "build", MOORAGE_VARIANT="asan") == ordinary
    assert {path.name for path in (tree / "build/asan").iterdir()} == {"cython", "lib", "temp"}
    assert built(tree, "build", MOORAGE_VARIANT="asan") == built(tree, "build") == []


def test_a_variant_is_not_built_beside_the_sources(tree: Path) -> None:
    done = call(tree, "build_ext", "--inplace", MOORAGE_VARIANT="tsan")
    assert done.returncode == 1
    assert done.stderr == "error: MOORAGE_VARIANT=tsan is made by `setup.py build`, in build/tsan\n"


def test_a_variant_that_does_not_exist_is_refused(tree: Path) -> None:
    done = call(tree, "build_ext", MOORAGE_VARIANT="fast")
    assert done.returncode == 1
    assert done.stderr.startswith("MOORAGE_VARIANT=fast: the variants are debug, asan, tsan, coverage;")
