"""Paths that exist for speed alone are a list: each has a user's workload, a ratio and a test."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.house.source import ROOT

TABLE = "tests/house/special_paths.toml"
KEYS = {"path", "file", "workload", "ratio", "measured", "test"}
MOST = 9
"""Who adds a path removes one."""


def entries() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = tomllib.loads((ROOT / TABLE).read_text())["path"]
    return listed


def problems(entry: dict[str, Any]) -> list[str]:
    """What is wrong with an entry."""
    source = (ROOT / entry["file"]).read_text()
    file, _, test = entry["test"].partition("::")
    tests = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
    return [
        what
        for what, is_wrong in {
            "has other keys": entry.keys() != KEYS,
            "is not in its file": re.search(rf"\b{entry['path']}\b", source) is None,
            "is not named where it is": f"`{TABLE}`" not in source,
            "brings too little": entry["ratio"] < 1.5,
            "has no such test": re.search(rf"^def {test}\(", tests, re.MULTILINE) is None,
        }.items()
        if is_wrong
    ]


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["path"])
def test_a_special_path_has_a_workload_a_ratio_and_a_test(entry: dict[str, Any]) -> None:
    assert problems(entry) == []


def test_there_are_few() -> None:
    assert len(entries()) <= MOST


def test_an_entry_that_is_wrong_is_seen() -> None:
    wrong = entries()[0] | {"path": "NoSuchPath", "ratio": 1.1, "test": "tests/no_file.py::test_nothing"}
    assert problems(wrong) == ["is not in its file", "brings too little", "has no such test"]
