"""What is installed follows from the requirements, not from how the files look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from building import environment

METADATA = """
[build-system]
requires = ["setuptools"]
[project]
dependencies = ["numpy>=2"]
[project.optional-dependencies]
cli = ["click>=8"]
test = ["moorage[cli]", "pytest"]
"""
Installed = Callable[[], list[list[str]]]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Installs extra `cli` in a tree of its own; what pip was given since the last call."""
    calls: list[list[str]] = []

    class Done:
        returncode = 0

    def run(command: list[str], **rest: Any) -> Done:
        calls.append(command[command.index("-c") + 2 :])
        return Done()

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text(METADATA)
    (tmp_path / "constraints.txt").write_text("# Versions.\nclick==8.5.1\n")

    def since() -> list[list[str]]:
        calls.clear()
        environment.install("build", ["cli"])
        return list(calls)

    return since


def test_the_same_is_installed_once(installed: Installed) -> None:
    assert installed() == [["setuptools", "numpy>=2", "click>=8"]]
    assert installed() == []


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_a_comment_installs_nothing(file: str, tmp_path: Path, installed: Installed) -> None:
    installed()
    path = tmp_path / file
    path.write_text(f"# A comment.\n{path.read_text()}")
    assert installed() == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pyproject.toml", "numpy>=2", "numpy>=2.1"),
        ("pyproject.toml", '"click>=8"', '"click>=8", "rich"'),
        ("constraints.txt", "8.5.1", "8.5.2"),
    ],
)
def test_a_changed_dependency_is_installed(
    file: str, old: str, new: str, tmp_path: Path, installed: Installed
) -> None:
    installed()
    path = tmp_path / file
    path.write_text(path.read_text().replace(old, new))
    assert len(installed()) == 1
    assert installed() == []


def test_an_extra_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="no extra clii"):
        environment.wanted(["clii"])
