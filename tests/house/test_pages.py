"""Pages name what exists, and link to what exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.source import ROOT, files, name

PAGES = ["ARCHITECTURE.md", "README.md", *(name(path) for path in files(".md", under="docs"))]
CODE = (".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".toml")
FILE = re.compile(r"[\w./]*\w\.(?:py|pyx|pxd|c|h|toml|md|yaml)|[\w./]*\w/")
# What is named as upstream's, or as a form and not as a name.
OTHERS = {"plugins/NAME.py", "moorage/plugin.h"}


@cache
def paths() -> frozenset[str]:
    found = {f"/{name(path)}" for path in files()}
    return frozenset(found | {f"{parent}/" for path in found for parent in map(str, Path(path).parents)})


@cache
def words() -> frozenset[str]:
    """Every name in the code."""
    found: set[str] = set()
    for path in (ROOT / "Makefile", *files(*CODE)):
        if path.name != Path(__file__).name:
            found.update(re.findall(r"\w+", path.read_text()))
    return frozenset(found)


def prose(page: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def unknown(span: str) -> list[str]:
    """What a text in backticks names and nobody has: a file or folder, or a name of the code."""
    if FILE.fullmatch(span) and span not in OTHERS:
        return [] if any(path.endswith(f"/{span}") for path in paths()) else [span]
    names = re.findall(r"[A-Za-z_]\w{2,}", re.sub(r"(?<!\w)\.?[\w.]*/[\w./]*", "", span))
    return [one for one in names if one not in words()]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    spans = [span for text in re.findall(r"`([^`]+)`", prose(page)) for span in text.split("`")]
    assert {span: unknown(span) for span in spans if unknown(span)} == {}


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_exists(page: str) -> None:
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", prose(page))]
    assert [
        target for target in targets if "://" not in target and not ((ROOT / page).parent / target).exists()
    ] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    trees = re.findall(r"^```{toctree}\n(.*?)^```$", index, re.DOTALL | re.MULTILINE)
    listed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    assert sorted(["docs/index.md", *(f"docs/{page}.md" for page in listed)]) == [
        page for page in sorted(PAGES) if page.startswith("docs/")
    ]


@pytest.mark.parametrize(
    ("span", "missing"),
    [
        ("scheduler/placing/place.py", []),
        ("place.py", []),
        ("docs/", []),
        ("lace.py", ["lace.py"]),
        ("scheduler/no_such_file.py", ["scheduler/no_such_file.py"]),
        ("Placer.place", []),
        ("NoSuchClass.place", ["NoSuchClass"]),
    ],
)
def test_a_name_of_nobody_is_seen(span: str, missing: list[str]) -> None:
    assert unknown(span) == missing
