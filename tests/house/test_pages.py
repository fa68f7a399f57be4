"""Pages name what exists, and link to what exists."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path
from pydoc import locate

import pytest

from moorage.sim.scheduling_policies import policies
from tests.doors.engine import in_tree_registry
from tests.house.source import ROOT, files, name

PAGES = ["ARCHITECTURE.md", "README.md", *(name(path) for path in files(".md", under="docs"))]
CODE = (".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".toml")
FILE = re.compile(r"[\w./]*\w\.(?:py|pyx|pxd|c|h|toml|md|yaml)|[\w./]*\w/")
# What is named as upstream's, or as a form and not as a name.
OTHERS = {"plugins/NAME.py", "moorage/plugin.h", "--enable-graceful-degradation"}


@cache
def paths() -> frozenset[str]:
    found = {f"/{name(path)}" for path in files()}
    return frozenset(found | {f"{parent}/" for path in found for parent in map(str, Path(path).parents)})


@cache
def words() -> frozenset[str]:
    """Every name in the code, and in the documents of answers."""
    found: set[str] = set()
    schemas = (ROOT / "python/moorage/cli/schemas").glob("*.json")
    for path in (ROOT / "Makefile", *schemas, *files(*CODE)):
        if path.name != Path(__file__).name:
            found.update(re.findall(r"\w+", path.read_text()))
    return frozenset(found)


def prose(page: str) -> str:
    """The text of a page, without blocks of code and without what is generated."""
    text = re.sub(r"^<!-- made from .*?^<!-- end -->$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.M)
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def unknown(span: str) -> list[str]:
    """What a text in backticks names and nobody has: a file or folder, or a name of the code."""
    if span in OTHERS:
        return []
    if FILE.fullmatch(span):
        return [] if any(path.endswith(f"/{span}") for path in paths()) else [span]
    names = re.findall(r"[A-Za-z_]\w{2,}", re.sub(r"(?<!\w)\.?[\w.]*/[\w./]*", "", span))
    return [one for one in names if one not in words()]


def found(pattern: str, flags: int = 0) -> list[tuple[str, str]]:
    """Each page with each text of its prose that a pattern finds."""
    return [(page, text) for page in PAGES for text in re.findall(pattern, prose(page), flags)]


def test_what_pages_name_exists() -> None:
    spans = [(page, span) for page, text in found(r"`([^`]+)`") for span in text.split("`")]
    assert [(page, span, names) for page, span in spans if (names := unknown(span))] == []


def test_what_pages_name_of_the_package_can_be_imported() -> None:
    pages = [name(path) for folder in ("docs", "examples") for path in files(".md", under=folder)]
    named = [
        (page, text) for page in pages for text in re.findall(r"\bmo\.[\w.]*\w", (ROOT / page).read_text())
    ]
    assert [(page, text) for page, text in named if locate(text.replace("mo.", "moorage.", 1)) is None] == []


# ---- docstrings and comments -----------------------------------------------------------------------------
#
# What stands in single backticks there is a name of the code; upstream's names stand in double ones.


PROSE = re.compile(r'""".*?"""|/\*.*?\*/|(?:(?<=\s)|^)(?:#|//) .*?$', re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"^(?:cdef |cpdef )?(?:class|enum) (\w+)(\([^:]*\))?:((?:.*\n(?= |\n))*.*)", re.MULTILINE)
ONE_NAME = re.compile(r"(?<!`)`([A-Za-z_][\w./]*)`(?!`)")


class Code:
    """The names of the code without those in prose: all of them, and those in each class or its bases."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.classes: defaultdict[str, set[str]] = defaultdict(set)
        self.bases: defaultdict[str, set[str]] = defaultdict(set)
        for path in files(".py", ".pyx", ".pxd", ".c", ".h"):
            if not name(path).startswith("tests/"):
                text = PROSE.sub("", path.read_text())
                self.names |= {path.stem, path.parent.name, *re.findall(r"\w+", text)}
                for owner, bases, body in CLASS.findall(text):
                    self.classes[owner].update(re.findall(r"\w+", body))
                    self.bases[owner].update(re.findall(r"\w+", bases))

    def has(self, owner: str, member: str) -> bool:
        bases = self.bases[owner] & self.classes.keys() - {owner}
        return member in self.classes[owner] or any(self.has(base, member) for base in bases)

    def lacks(self, span: str) -> bool:
        """Whether a text in backticks is a name that nothing has; `Class.method` is one of that class."""
        if FILE.fullmatch(span):
            return bool(unknown(span))
        owner, _, member = span.rpartition(".")
        if owner in self.classes:
            return not self.has(owner, member)
        return not {*re.findall(r"\w+", span)} <= self.names and locate(span) is None


def test_what_docstrings_and_comments_name_exists() -> None:
    code = Code()
    for path in files(".py", under="python/moorage"):
        remarks = " ".join(PROSE.findall(path.read_text()))
        assert [span for span in sorted({*ONE_NAME.findall(remarks)}) if code.lacks(span)] == [], path
    assert [code.lacks(span) for span in ("Placer.place", "NodeSearch", "click.ParamType")] == [False] * 3
    assert [code.lacks(span) for span in ("Placer.no_such", "NoSuchSearch", "no_such.place")] == [True] * 3


# ---- programs, links, words ------------------------------------------------------------------------------


def test_the_programs_that_pages_run_exist() -> None:
    program = re.compile(r"python -m ((?:bench|building|tests)(?:\.\w+)*)")
    pages = [path for folder in ("bench", "docs", "tests") for path in files(".md", under=folder)]
    named = [(path, module) for path in pages for module in program.findall(path.read_text())]
    known = {path.removesuffix(end) for path in paths() for end in (".py", "/__main__.py")}
    assert [
        (name(path), module) for path, module in named if f"/{module.replace('.', '/')}" not in known
    ] == []


def test_what_pages_link_to_exists() -> None:
    targets = [(page, link.partition("#")[0]) for page, link in found(r"\]\(([^)]+)\)") if "://" not in link]
    assert [one for one in targets if not ((ROOT / one[0]).parent / one[1]).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    trees = re.findall(r"^```{toctree}\n(.*?)^```$", index, re.DOTALL | re.MULTILINE)
    listed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    assert sorted(["docs/index.md", *(f"docs/{page}.md" for page in listed)]) == [
        page for page in sorted(PAGES) if page.startswith("docs/")
    ]


def test_pages_begin_with_what_they_are_for() -> None:
    begin = re.compile(r"# .+\n\n[\w*`].*\S.*\n")
    assert [page for page in PAGES if not begin.match((ROOT / page).read_text())] == []


def test_pages_are_in_plain_words() -> None:
    riddles = r"\b(?:(?:is|are) told|nobody|somebody|of too many|(?:says|tells) that)\b"
    allowed = "docs/interfaces.md"  # has names of tests
    assert [one for one in found(riddles, re.IGNORECASE) if one[0] != allowed] == []


# ---- Pages for users -------------------------------------------------------------------------------------

NAMES = {"ConfigMap", "KubeSchedulerConfiguration", "PersistentVolumeController"}
NAMES |= {"NodeMetrics", "PodMetrics", "ValidatingWebhookConfiguration"}
NAMES |= {"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Topology", "AdmissionCheck"}
NAMES |= {"Workload", "WorkloadPriorityClass", "CapacityBuffer", "PodTemplate"}
"""What Kubernetes, Kueue or cluster-autoscaler calls its own, and a class of moorage is called too."""


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


def test_pages_for_users_name_only_what_they_can_import() -> None:
    for page in users_pages():
        text = prose(page)
        assert set(re.findall(r"\b[A-Z]\w*[a-z]\w*[A-Z]\w*\b", text)) & inner_classes() == set(), page
        spans = " ".join(re.findall(r"`([^`\n]+)`", text))
        assert set(re.findall(r"\b[A-Z]\w+", spans)) & inner_classes() == set(), page
        assert re.findall(r"`(?:\S*_core|csrc|pyx)/[^`]*`", text) == [], page


@pytest.mark.parametrize(
    ("span", "missing"),
    [
        ("scheduler/place.py", []),
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
