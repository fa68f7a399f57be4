"""The pictures of the pages show what moorage prints today: `make pictures` draws them anew."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from tests.house.source import ROOT, files

FOLDER = ROOT / "docs/pictures"


@pytest.fixture(scope="module")
def maker() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    yield import_module("make_pictures")
    sys.path.remove(str(ROOT / "docs"))


@pytest.mark.parametrize("name", ["recording", "terminal"])
def test_a_terminal_shows_what_commands_print(maker: ModuleType, name: str) -> None:
    printed = maker.SESSIONS[name]()
    for theme in maker.THEMES:
        assert (FOLDER / f"{name}-{theme}.svg").read_text() == maker.terminal(printed, theme)


@pytest.mark.parametrize("name", ["check", "heat", "sweep", "twin"])
def test_a_picture_is_of_the_page_that_is_written_today(maker: ModuleType, name: str) -> None:
    assert json.loads(maker.DIGESTS.read_text())[name] == maker.digest(maker.PAGES[name]())


def test_a_digest_is_of_what_a_page_says(maker: ModuleType) -> None:
    page = "<style>a</style><p>{}</p><script>b</script><footer>c</footer>"
    assert maker.digest(page.format(1)) == maker.digest("<p>1</p>") != maker.digest(page.format(2))


def test_pictures_are_small_and_each_is_shown_in_light_and_dark() -> None:
    pictures = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.suffix != ".json"}
    assert sum(pictures.values()) < 1_500_000
    shown = set()
    for page in (ROOT / "README.md", *files(".md", under="docs")):
        for dark, light in re.findall(r'<picture>\n.*?srcset="(.*?)">\n *<img src="(.*?)"', page.read_text()):
            assert dark.replace("-dark", "-light") == light
            shown |= {(page.parent / path).resolve() for path in (dark, light)}
    assert shown == {FOLDER / name for name in pictures}
