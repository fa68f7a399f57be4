"""What docs/interfaces.md names exists: each Python name, and each test."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.house.source import ROOT, is_test

PAGE = ROOT / "docs/interfaces.md"
DOCUMENTS = 5


def rows(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """The Go name, the Python names and the tests of each row of the tables."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 3 and cells[0] not in ("Go", ""):
            yield cells[0], *[re.findall(r"`([^`]+)`", cell) for cell in cells[1:]]


def found(path: str) -> Any:
    """What an import path stands for: a module, or an attribute of one or of its classes."""
    parts = path.split(".")
    for at in range(len(parts), 0, -1):
        try:
            one = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        for part in parts[at:]:
            one = getattr(one, part)
        return one
    raise ModuleNotFoundError(path)


def test_every_document_has_a_table_and_every_row_a_name_and_a_test() -> None:
    text = PAGE.read_text()
    assert text.count("\n| Go | Python | Tests |\n") == text.count("\n## ") == DOCUMENTS
    table = list(rows(text))
    assert len(table) == len([line for line in text.splitlines() if line.startswith("| ")]) - DOCUMENTS
    assert [go for go, names, tests in table if not go or not names or not tests] == []


def test_every_python_name_can_be_imported() -> None:
    missing = []
    for go, names, _ in rows(PAGE.read_text()):
        for name in names:
            try:
                found(name)
            except (ImportError, AttributeError) as error:
                missing.append(f"{go}: {error}")
    assert missing == []


def test_every_test_exists() -> None:
    assert [
        f"{go}: {test}" for go, _, tests in rows(PAGE.read_text()) for test in tests if not is_test(test)
    ] == []


@pytest.mark.parametrize(
    "name", ["moorage.engine.cache.NoSuchCache", "moorage.no_such_room.NodeTree", "no_such_package"]
)
def test_a_name_that_is_gone_is_an_error(name: str) -> None:
    with pytest.raises((ImportError, AttributeError)):
        found(name)


@pytest.mark.parametrize(
    "test",
    [
        "house/test_interfaces.py::test_no_such",
        "house/test_no_such.py::test_every_test_exists",
        "house/test_interfaces.py::rows",
        "house/test_interfaces.py",
    ],
)
def test_a_test_that_is_gone_is_seen(test: str) -> None:
    assert not is_test(test)
    assert is_test("house/test_interfaces.py::test_every_test_exists")
