"""Two revisions in turn: what is printed, and that nothing stays behind."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench import compare

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of one file."""
    git(tmp_path, "init", "--quiet")
    for text in ("first", "second"):
        (tmp_path / "file").write_text(text)
        git(tmp_path, "add", "file")
        git(tmp_path, "commit", "--quiet", "--message", text)
    return tmp_path


@needs_git
def test_a_worktree_has_the_revision_and_goes_even_after_an_error(repository: Path) -> None:
    def fail() -> None:
        with compare.worktree(repository, "HEAD~1") as tree:
            assert (tree / "file").read_text() == "first"
            assert tree.is_relative_to(repository / "build")
            (tree / "built.so").write_text("")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list((repository / "build").iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_ratios_name_what_is_new_and_what_is_gone() -> None:
    base = compare.merge([{"a": 3e-6, "old": 1.0}, {"a": 2e-6}])
    now = compare.merge([{"a": 1e-6, "b": 5e-9}, {"a": 4e-6, "b": 6e-9}])
    assert compare.ratios(base, now).splitlines()[2:] == [
        "| a | 2 µs | 1 µs | 2.00 |",
        "| b | - | 5 ns | new |",
        "| old | 1 s | - | gone |",
    ]


def test_base_and_tree_are_measured_in_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Neither side is always the first of a round."""

    @contextmanager
    def worktree(root: Path, revision: str) -> Iterator[Path]:
        yield tmp_path / revision

    def measure(tree: Path, suites: list[str], results: Path) -> compare.Minima:
        assert suites == ["suite"]
        order.append(tree)
        return {"a": 1.0 / len(order)}

    order: list[Path] = []
    monkeypatch.setattr(compare, "worktree", worktree)
    monkeypatch.setattr(compare, "build", order.append)
    monkeypatch.setattr(compare, "measure", measure)
    compare.main(["old", "suite", "--rounds", "3"])
    base, now = tmp_path / "old", compare.ROOT
    assert order == [base, base, now, now, base, base, now]
    assert "| a | 167 ms | 143 ms | 1.17 |" in capsys.readouterr().out
