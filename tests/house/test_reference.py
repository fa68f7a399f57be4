"""The reference documents every public name, with its parameters and results."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from moorage import Scheduler
from moorage.kube import Cluster
from tests.doors.engine import IndexedObjects
from tests.house.source import ROOT, files
from tests.make import node, pod

PAGES = sorted((ROOT / "docs/reference").glob("*.md"))
NUMPY = """One line.

Parameters
----------
one, two : int
*rest : int

Returns
-------
float
    Seconds.
"""


@pytest.fixture(scope="module")
def doors() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    yield import_module("front_doors")
    sys.path.remove(str(ROOT / "docs"))


def test_every_front_door_has_its_place(doors: ModuleType) -> None:
    found = re.findall(
        r"^<!-- made from module: (\S+) -->$", "\n".join(page.read_text() for page in PAGES), re.M
    )
    assert sorted(found) == sorted(doors.FRONT_DOORS)


def test_every_public_name_is_documented_once(doors: ModuleType) -> None:
    lines = [line for door in doors.FRONT_DOORS for line in doors.reference(door)]
    places = re.findall(r"^### (moorage\S+)$", "\n".join(lines), re.M)
    assert len(places) == len(set(places)) > 400
    public: set[str] = set()
    for door in doors.FRONT_DOORS:
        module = import_module(door)
        for name in doors.public_names(module):
            if callable(value := getattr(module, name)):
                public.add(doors.homes()[id(value)])
    assert public == set(places)


def test_every_public_callable_tells_what_it_takes_returns_and_raises(doors: ModuleType) -> None:
    assert [gap for door in doors.FRONT_DOORS for gap in doors.undocumented(door)] == []


INSIDE = {
    *("context", "controllers", "engines", "groups", "options", "participants", "release", "state"),
    *("feature_gates", "served_gates", "server", "writes"),  # of a handle and of a store
    *("interned", "label_keys"),  # of the core
    *("active", "backoff", "flights", "hints", "now", "pod_events", "unschedulable"),  # of the queue
}
"""Attributes that lead into the engine, of which no user holds anything."""


def held(value: Any, path: str, seen: dict[type[Any], str]) -> None:
    """Note the types of a value, of its items and of its public attributes, each with how one comes there."""
    kind = type(value)
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        for item in [*(value.values() if isinstance(value, Mapping) else value)][:3]:
            held(item, f"{path}[]", seen)
    if not kind.__module__.startswith("moorage") or kind in seen:
        return
    seen[kind] = path
    names = {name for name in dir(kind) if not name.startswith("_")}.union(described(kind.__doc__ or ""))
    for name in sorted(names - INSIDE):
        if not inspect.isroutine(inner := getattr(value, name, None)):
            held(inner, f"{path}.{name}", seen)


def test_every_type_that_a_user_can_hold_has_a_documented_path(doors: ModuleType) -> None:
    one = Scheduler(Cluster(nodes=[node("a", cpu=2)], pods=[pod("x", requests={"cpu": 1})]))
    preemption = one.preempt_pods([pod("w", requests={"cpu": 1})])
    preemption.undo()
    with one.transaction() as transaction:
        values: list[Any] = [
            one,
            one.schedule_one(pod("z", requests={"cpu": 1})),
            one.schedule_one(pod("y", requests={"cpu": 9})),
        ]
    values += [transaction, preemption, one.examine(pod("v")), one.run(), one.cache.node_info("a")]
    values += [one.schedule_pods([pod("f", requests={"cpu": 9})])]
    values += [one.ask.explain(pod("u", requests={"cpu": 2}, priority=9)).preemption]
    seen: dict[type[Any], str] = {}
    for value in values:
        held(value, type(value).__name__, seen)
    assert len(seen) > 20
    assert {path: kind for kind, path in seen.items() if id(kind) not in doors.homes()} == {}


def described(doc: str) -> list[str]:
    """The names under "Attributes" of a docstring."""
    _, _, part = inspect.cleandoc(doc).partition("\nAttributes\n----------\n")
    lines = re.findall(r"^(\w+(?:, \w+)*)(?: : .*)?$", re.split(r"\n\n\w+\n-+\n", part)[0], re.M)
    return [name for line in lines for name in line.split(", ")]


def test_every_attribute_that_a_compiled_class_documents_can_be_read() -> None:
    seen, missing = 0, []
    for path in files(".pyx", under="pyx"):
        module = import_module(".".join(path.relative_to(ROOT / "pyx").with_suffix("").parts))
        for one in vars(module).values():
            if isinstance(one, type) and one.__module__ == module.__name__ and not one.__dictoffset__:
                names = described(one.__doc__ or "")
                seen += len(names)
                missing += [f"{path.stem}.{one.__name__}.{name}" for name in names if not hasattr(one, name)]
    assert seen > 50
    assert missing == []


def documented(one: int, two: int, *rest: int, **more: int) -> float:
    return one


def undocumented(one: int, three: float, seconds: float) -> list[float]:
    return [one]


def typed(one: int, three: str) -> bool:
    return bool(one)


def untyped(one):  # type: ignore[no-untyped-def]
    pass


def failing(one: int, two: int, *rest: int) -> int:
    if two:
        raise ValueError("two")
    return one


class Undocumented:
    def ask(self) -> int:
        return 0


def test_what_a_docstring_lacks_is_seen(doors: ModuleType) -> None:
    assert list(doors.of_routine("f", documented, NUMPY)) == []
    assert list(doors.of_routine("f", undocumented, NUMPY)) == ["f: three"]
    assert list(doors.of_routine("f", undocumented, "")) == ["f"]
    assert list(doors.of_routine("f", documented, NUMPY.partition("Returns")[0])) == ["f: what it returns"]
    assert list(doors.of_routine("f", untyped, "One line.")) == ["f: one"]
    assert list(doors.of_routine("f", typed, "One line.")) == []
    assert list(doors.of_routine("f", failing, NUMPY)) == ["f: when it raises ValueError"]
    raises = f"{NUMPY}\nRaises\n------\nValueError\n    Of two.\n"
    assert list(doors.of_routine("f", failing, raises)) == []


@pytest.mark.parametrize(
    ("text", "gaps"),
    [
        ("time : float", ["f: the unit of time"]),
        ("time : float\n    When it ends.", ["f: the unit of time"]),
        ("time : float\n    Seconds.", []),
        ("time : int", []),
        ("share : float", []),
    ],
)
def test_a_float_without_a_unit_is_seen(doors: ModuleType, text: str, gaps: list[str]) -> None:
    assert list(doors.without_unit("f", f"One line.\n\nParameters\n----------\n{text}\n")) == gaps


def test_what_compiled_code_lacks_is_seen(doors: ModuleType) -> None:
    text = str(IndexedObjects.define.__doc__)
    without = text.partition("Raises")[0]
    assert list(doors.of_routine("f", IndexedObjects.define, inspect.cleandoc(without))) == [
        "f: when it raises ValueError"
    ]
    assert list(doors.of_routine("f", IndexedObjects.define, inspect.cleandoc(text))) == []


def test_what_is_inherited_counts(doors: ModuleType) -> None:
    class Door(Undocumented):
        """A class whose base is no front door."""

    Door.__module__ = Undocumented.__module__ = "moorage.door"
    assert list(doors.of_class("Door", Door)) == ["Door.ask"]


def test_every_schema_is_shown_with_its_fields(doors: ModuleType) -> None:
    schemas = import_module("schema_tables")
    for file in schemas.SCHEMAS.glob("*.json"):
        lines = list(schemas.table(file))
        assert json.loads(file.read_text())["title"] in lines
        assert any(line.startswith("| `") for line in lines), file.name


def test_the_schemas_are_fresh(doors: ModuleType) -> None:
    """`make schemas` writes them anew."""
    make = import_module("make_schemas")
    stale = [
        name for name in make.ANSWERS if (make.SCHEMAS / f"{name}.v1.json").read_text() != make.text_of(name)
    ]
    assert stale == []


def test_the_reference_is_fresh(doors: ModuleType) -> None:
    """`make reference` writes it anew, and the tables of verbs."""
    reference = import_module("make_reference")
    texts = {page.stem: page.read_text() for page in reference.PAGES}
    assert len(texts) > len(PAGES)
    assert [name for name, text in texts.items() if reference.made(text) != text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_lists_of_names_lead_to_their_headings(page: Path) -> None:
    text = page.read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert {target for target in re.findall(r"\]\(#([^)]+)\)", text) if target not in anchors} == set()


def test_a_name_is_listed_with_its_first_sentence(doors: ModuleType) -> None:
    lines = list(doors.reference("moorage"))
    members = next(line for line in lines if line.startswith("Members: ") and "#questionsprovision" in line)
    assert "[`explain`](#questionsexplain)" in members
    assert any(line.startswith("| [`Quantity`](#mooragequantity) | A fixed-point number") for line in lines)


def test_a_signature_shows_types_and_simple_defaults(doors: ModuleType) -> None:
    def ask(name: str = "", *, size: float = 1.0, by: object = PAGES) -> Path:
        """Return it.

        Parameters
        ----------
        size : float
            In ``seconds``.
        """
        return Path(name)

    assert list(doors.of_object("ask", ask)) == [
        "```python",
        "ask(name: str = '', *, size: float = 1.0, by: object = ...) -> Path",
        "```",
        "",
        "Return it.",
        "",
        "**Parameters**",
        "",
        "- `size` : float",
        "  In `seconds`.",
    ]
