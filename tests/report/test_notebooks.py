"""The notebooks of examples/ run, cell by cell."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import ROOT, files

NOTEBOOKS = files(".ipynb", under="examples")


def run(notebook: Path) -> tuple[dict[str, Any], list[Any]]:
    """The names that a notebook has defined, and what its cells show.

    That is all that these notebooks ask of Jupyter; its client and kernel would be 40 packages.
    """
    found: dict[str, Any] = {}
    shown = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        *body, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(body, []), notebook.name, "exec"), found)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), found))
        else:
            exec(compile(ast.Module([last], []), notebook.name, "exec"), found)
    return found, shown


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text())
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)


def test_the_notebook_about_what_fits_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples/notebooks")
    found, shown = run(ROOT / "examples/notebooks/what_fits.ipynb")
    assert [nodes for _, nodes in shown[1]] == [1, 1, 0]  # fewer replicas place no pod
    before, after = shown[2]
    assert 8 == before > after >= 0
    assert type(shown[-1]).__name__ == "Figure"
    assert len(found["result"].placements) == 16


def test_a_day_of_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples/notebooks")
    found, shown = run(ROOT / "examples/notebooks/a_day_of_load.ipynb")
    summary, smaller = found["history"].summary(), found["smaller"].summary()
    assert summary["pods"] == shown[0] > 1000
    assert smaller["pending_max"] > summary["pending_max"]
    assert shown[-1] > 50_000
