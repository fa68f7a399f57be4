"""A newcomer guesses the file from the feature: small folders, and no name twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.house.source import ROOT, files, name

FILES = 18  # about 15: no file is moved to meet a number
PACKAGE = ROOT / "python"


def crowded(paths: list[Path]) -> dict[str, int]:
    """Folders with more files than one takes in at a glance; the in-tree plugins are a list of their own."""
    sizes = Counter(name(path.parent) for path in paths if path.stem != "__init__")
    return {folder: n for folder, n in sizes.items() if n > FILES and not folder.endswith("/plugins")}


def test_folders_are_small() -> None:
    assert [crowded(files(suffix)) for suffix in (".py", ".pyx", ".c")] == [{}, {}, {}]


def test_a_crowded_folder_is_seen() -> None:
    many = [ROOT / "python/moorage/room" / f"f{at}.py" for at in range(FILES)]
    assert crowded([*many, many[0].with_name("__init__.py")]) == {}
    assert crowded([*many, many[0].with_name("one_more.py")]) == {"python/moorage/room": FILES + 1}


def recurring(paths: list[Path]) -> set[str]:
    """Basenames of several modules; a command in cli/ may be named as the room that it calls."""
    counts = Counter(path.stem for path in paths if path.stem not in {"__init__", "__main__", "errors"})
    return {stem for stem, n in counts.items() if n > 1}


def test_a_name_is_that_of_one_module() -> None:
    assert recurring(files(".py", under="python")) == set()


def test_a_name_that_recurs_is_seen() -> None:
    one, other = PACKAGE / "moorage/engine/queue/units.py", PACKAGE / "moorage/engine/preemption/units.py"
    assert recurring([one, other, one.with_name("errors.py"), other.with_name("errors.py")]) == {"units"}
