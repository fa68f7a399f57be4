"""Pages name what exists, and link to what exists."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from moorage.plugins.registry import in_tree_registry
from moorage.sim.policies import policies
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
    """The text of a page, without blocks of code and without what is generated."""
    text = re.sub(r"^<!-- made from .*?^<!-- end -->$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.M)
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_what_it_is_for(page: str) -> None:
    assert re.match(r"# .+\n\n[\w*`].*\S.*\n", (ROOT / page).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_in_plain_words(page: str) -> None:
    if page != "docs/interfaces.md":  # has names of tests
        riddles = r"\b(?:(?:is|are) told|nobody|somebody|of too many|(?:says|tells) that)\b"
        assert re.findall(riddles, prose(page), re.IGNORECASE) == []


# ---- Pages for users -------------------------------------------------------------------------------------

NAMES = {"KubeSchedulerConfiguration", "PersistentVolumeController"}
"""What Kubernetes calls its own, and a class of moorage is called too."""


@cache
def inner_classes() -> frozenset[str]:
    """The classes that no front door exports and no configuration names."""
    sys.path.insert(0, str(ROOT / "docs"))
    doors = import_module("front_doors")
    sys.path.remove(str(ROOT / "docs"))
    public = {name for door in doors.FRONT_DOORS for name in doors.public_names(import_module(door))}
    plugins = {*in_tree_registry(), *policies()}
    found: set[str] = set()
    for path in (*files(".py", under="python/moorage"), *files(".pyx", under="pyx")):
        found.update(re.findall(r"^(?:cdef )?class (\w+)", path.read_text(), re.MULTILINE))
    return frozenset(found - public - plugins - NAMES)


def users_pages() -> list[str]:
    """The pages before the maintainers'."""
    index = (ROOT / "docs/index.md").read_text().partition(":caption: For maintainers")[0]
    listed = re.findall(r"^[\w/]+$", index, re.MULTILINE)
    return ["README.md", *(f"docs/{page}.md" for page in listed)]


@pytest.mark.parametrize("page", users_pages())
def test_a_page_for_users_names_only_what_they_can_import(page: str) -> None:
    text = prose(page)
    assert set(re.findall(r"\b[A-Z]\w*[a-z]\w*[A-Z]\w*\b", text)) & inner_classes() == set()
    spans = {word for span in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\b[A-Z]\w+", span)}
    assert spans & inner_classes() == set()
    assert re.findall(r"`(?:\S*_core|csrc|pyx)/[^`]*`", text) == []


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
