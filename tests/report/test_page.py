"""A page is one file without network, in which texts from outside are texts."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import moorage as mo
from moorage.answers import KeyFigure, KeyFigures, Page, current_use, simulation_page
from moorage.kube import Cluster
from moorage.notes import RoutineNote
from tests.doors.sim import sweep_page
from tests.house.source import ROOT
from tests.make import node

from .pages import EVIL, Read


def evil(value: Any) -> Any:
    """The same with a text of an attacker wherever a text is."""
    if isinstance(value, str):
        return EVIL
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: evil(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, dict):
        return {key: evil(each) for key, each in value.items()}
    return [*map(evil, value)] if isinstance(value, list | tuple) else value


@cache
def evil_page() -> str:
    changes = [SimpleNamespace(kind=EVIL, text=EVIL, feasible_nodes=1)]
    help_: Any = SimpleNamespace(preemption=None, changes=changes, change_pairs=[])
    use = current_use(mo.Scheduler(Cluster(nodes=[node(EVIL, EVIL)])))
    document = mo.simulate(ROOT / "examples").document()
    document = replace(document, workloads=evil(document.workloads))
    page = simulation_page(document, use, lambda _: help_, [EVIL, EVIL])
    page.title = EVIL
    mean = {"configuration": EVIL, "timeline": EVIL, "change": EVIL, "measure": EVIL}
    numbers = {"runs": 2, "mean": 1.0, "least": 0.5, "greatest": 2.0, "margin": 0.1}
    run = mean | {"seed": 1, "measures": {EVIL: 1.0}}
    other = mean | {"configuration": "other"} | numbers
    page.sections += sweep_page({"means": [mean | numbers, other], "runs": [run]}, ["1 replay"]).sections
    return page.html()


def test_texts_from_outside_are_escaped() -> None:
    text = evil_page()
    found = Read(text)
    assert "gotcha" in found.text
    assert [tag for tag, _ in found.tags if tag == "img"] == []
    assert sum(tag == "script" for tag, _ in found.tags) == 3  # data, uPlot, ours
    assert text.count("<script") == 3 == text.count("</script>")
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)


def test_the_data_has_the_texts_and_no_markup() -> None:
    text = evil_page()
    found = Read(text)
    (means,) = (block for block in found.data.values() if isinstance(block, list))
    assert means[0]["configuration"] == EVIL
    island = text.split('id="data">')[1].split("</script>")[0]
    assert not set("<>&'") & set(island)


def test_scripts_of_others_do_not_run() -> None:
    """The policy names the digests of the page's own scripts, and admits nothing from anywhere."""
    text = evil_page()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src 'none'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert policy.split("script-src ")[1].split(";")[0].split() == [f"'sha256-{one}'" for one in digests]
    assert "unsafe-inline" not in policy.split("script-src ")[1]


def test_nothing_is_loaded() -> None:
    found = Read(evil_page())
    assert not [tag for tag, _ in found.tags if tag in ("link", "iframe", "object", "embed", "base")]
    assert not any({"src", "srcset", "action"} & attributes.keys() for _, attributes in found.tags)
    links = {attributes["href"] for tag, attributes in found.tags if tag == "a"}
    assert all(str(link).startswith("#") for link in links)
    assert "url(" not in evil_page()


def test_control_characters_are_shown_escaped() -> None:
    assert r"a\x1b[31mb" in Page("t", "a\x1b[31mb").html()


def test_no_fact_stands_alone_in_a_row() -> None:
    page = Page("t", "h")
    page.add("s", KeyFigures([KeyFigure(str(at), "1") for at in range(7)]))
    assert 'style="--columns:4"' in page.html()


def test_a_number_that_json_lacks_is_an_error() -> None:
    """It would leave the page without any chart."""
    page = Page("t", "h")
    nan = {"configuration": "a", "timeline": "a", "change": "a", "measure": "m", "runs": 1}
    page.sections += sweep_page(
        {"means": [nan | {"mean": float("nan"), "least": 0.0, "greatest": 0.0}], "runs": []}, ["h"]
    ).sections
    with pytest.raises(ValueError, match="JSON"):
        page.html()


def test_ids_are_unique() -> None:
    ids = [attributes["id"] for _, attributes in Read(evil_page()).tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 5


def test_warnings_stand_first_and_notes_of_every_command_last() -> None:
    page = Page("t", "h", warnings=[RoutineNote("left out"), "may change it"])
    page.add("Answer", KeyFigures([KeyFigure("a", "1")]))
    text = page.html()
    places = [text.rindex(part) for part in ("may change it", ">Answer<", "Notes (1)", "left out")]
    assert places == sorted(places)
