"""A file is made again when what it was made of has changed, and not otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from building.up_to_date import Made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.c"
    path.write_text("one")
    return path


def made(source: Path, *recipe: str) -> Made:
    return Made(source.with_suffix(".o"), source.with_suffix(".made"), recipe)


def make(source: Path, *recipe: str) -> None:
    one = made(source, *recipe)
    one.begin([str(source), str(source.with_suffix(".h"))])
    one.output.write_text(source.read_text())
    one.end()


def test_a_file_that_was_made_is_current(source: Path) -> None:
    assert not made(source).is_current()
    make(source)
    assert made(source).is_current()


def test_an_input_with_another_time_changes_nothing(source: Path) -> None:
    make(source)
    os.utime(source, (2**31, 2**31))
    assert made(source).is_current()


def test_an_input_with_other_contents_is_seen_whatever_its_time(source: Path) -> None:
    make(source)
    before = source.stat().st_mtime
    source.write_text("two")
    os.utime(source, (before, before))
    assert not made(source).is_current()
    source.write_text("one")
    assert made(source).is_current()


def test_an_input_that_comes_or_goes_is_seen(source: Path) -> None:
    make(source)
    source.with_suffix(".h").write_text("")
    assert not made(source).is_current()
    source.with_suffix(".h").unlink()
    source.unlink()
    assert not made(source).is_current()


def test_another_recipe_is_seen(source: Path) -> None:
    make(source, "-O1")
    assert made(source, "-O1").is_current()
    assert not made(source, "-O2").is_current()


def test_a_file_that_is_gone_is_made_again(source: Path) -> None:
    make(source)
    made(source).output.unlink()
    assert not made(source).is_current()


def test_a_step_that_was_interrupted_is_taken_again(source: Path) -> None:
    make(source)
    made(source).begin([str(source)])
    assert not made(source).is_current()


def test_a_source_that_changes_while_it_is_compiled_is_compiled_again(source: Path) -> None:
    one = made(source)
    one.begin([str(source)])
    one.output.write_text("of one")
    source.write_text("two")
    one.end()
    assert not made(source).is_current()
