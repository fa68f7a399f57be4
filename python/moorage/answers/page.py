"""A page of a report: sections of blocks, written as one HTML file that needs no network.

Texts are escaped by the template. What scripts draw is JSON in one element, in which `<`, `>`, `&` and quotes
are escaped too. A Content-Security-Policy admits the page's own scripts alone, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

from msgspec import Struct

from moorage._version import __version__
from moorage.errors import MoorageError, missing, printable
from moorage.notes import RoutineNote

ROWS = 500
"""Maximum rows of a table of a page."""


class Bar(Struct, frozen=True):
    """A cell with a part of a whole: the per cent that are drawn, and its text."""

    percent: float
    text: str


Cell = str | int | float | Bar | None


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A number with its name; `tone` is "warn" for what asks for action, "good" for what needs none."""

    name: str
    value: str
    tone: str = ""


@dataclass(frozen=True)
class KeyFigures:
    """Numbers in large type."""

    kind: ClassVar[str] = "facts"
    items: Sequence[KeyFigure]


class Lines(Struct, frozen=True):
    """Paragraphs."""

    kind: ClassVar[str] = "lines"
    lines: Sequence[str]
    is_note: bool = False


class Grid(Struct, frozen=True):
    """A table that can be sorted, and filtered if it is long.

    Attributes
    ----------
    rows : sequence of sequence of Cell
        Those that are shown, at most `ROWS`; see `shortened`.
    choices : sequence of int
        Columns whose values can be chosen.
    total : int
        Number of rows, with those that are not shown.
    more : str
        Where the other rows are.
    """

    kind: ClassVar[str] = "grid"
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    choices: Sequence[int] = ()
    total: int = 0
    more: str = ""

    def values(self, column: int) -> list[str]:
        """Return the texts of a column, each once."""
        return sorted({str(row[column]) for row in self.rows})

    def is_numeric(self, column: int) -> bool:
        """Whether a column has numbers."""
        return any(isinstance(row[column], int | float) for row in self.rows)


def shortened(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    choices: Sequence[int] = (),
    more: str = "",
) -> Grid:
    """Return a table of the first `ROWS` rows, without columns that are empty in all of them; see `Grid`."""
    shown = rows[:ROWS]
    kept = [at for at in range(len(headings)) if any(row[at] not in ("", None) for row in shown)]
    return Grid(
        caption,
        [headings[at] for at in kept],
        [[row[at] for at in kept] for row in shown],
        [kept.index(at) for at in choices if at in kept],
        len(rows),
        more,
    )


class Drawn(Struct, frozen=True):
    """A block that a script draws.

    Attributes
    ----------
    data : object
        A JSON value, for the script.
    """

    kind: str
    data: Any
    texts: dict[str, Any]


class Causes(Struct, frozen=True):
    """Pods without a node, by cause; each item is a `Cause` of pending_causes.py."""

    kind: ClassVar[str] = "causes"
    items: Sequence[Any]
    left_out: int = 0


Block = KeyFigures | Lines | Grid | Drawn | Causes


class Section(Struct, frozen=True):
    """A titled part of a page."""

    title: str
    blocks: Sequence[Block]


@dataclass
class Page:
    """What a report says.

    Attributes
    ----------
    title, headline : str
        The headline is the result in a sentence.
    sections : list of Section
    about : dict of str to str
        What the result is about, as its input and the command, by name.
    subject : str
        What the title in the window adds.
    warnings : list of str
    """

    title: str
    headline: str
    sections: list[Section] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    subject: str = ""
    warnings: list[str] = field(default_factory=list)

    def add(self, title: str, *blocks: Block | None) -> None:
        """Add a section of the blocks that have something to show, unless there is none."""
        present = [
            block
            for block in blocks
            if block is not None and not (isinstance(block, Grid) and not block.rows)
        ]
        if present:
            self.sections.append(Section(title, present))

    def html(self) -> str:
        """Return the page as one HTML file; equal pages give equal bytes.

        Raises
        ------
        MoorageError
            jinja2 is not installed.
        """
        from markupsafe import Markup

        style, scripts = _assets()
        sections = list(self.sections)
        routine = [text for text in self.warnings if isinstance(text, RoutineNote)]
        if above := [text for text in self.warnings if text not in routine]:
            sections.insert(0, Section(f"Warnings ({amount(len(above))})", [Lines(above)]))
        if routine:
            sections.append(Section(f"Notes ({amount(len(routine))})", [Lines([*map(str, routine)])]))
        hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
        text: str = _template().render(
            page=self,
            sections=sections,
            styles=Markup(style),
            scripts=[Markup(script) for script in scripts],
            hashes=Markup(hashes),
            data=dict(_data(sections)),
            version=__version__,
        )
        return text


def _data(sections: Iterable[Section]) -> Iterator[tuple[str, Any]]:
    """Yield what scripts draw, by the name of the block in the template."""
    for at, section in enumerate(sections, 1):
        for number, block in enumerate(section.blocks, 1):
            if isinstance(block, Drawn):
                yield f"b{at}-{number}", block.data


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _assets() -> tuple[str, list[str]]:
    """Return the style sheet and the scripts."""
    folder = files(__package__) / "assets"
    names = "uplot/uPlot.min.css", "page.css", "uplot/uPlot.iife.min.js", "page.js"
    first, second, *scripts = ((folder / name).read_text("utf-8") for name in names)
    return first + second, scripts


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise MoorageError(missing("jinja2", "cli")) from None
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {"amount": amount, "clip": lambda percent: round(min(max(percent, 0), 100), 1)}
    return environment.from_string((files(__package__) / "assets/page.html.jinja").read_text("utf-8"))


def amount(value: float) -> str:
    """Format a number for readers: groups of thousands, at most six digits."""
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent_bar(percent: float) -> Bar:
    """Return a cell with a bar of some per cent."""
    return Bar(round(percent, 2), f"{percent:.1f} %")
