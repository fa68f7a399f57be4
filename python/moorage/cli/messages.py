"""What a command says on stderr: errors, notes, and what it does for so long."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, compress
from shutil import get_terminal_size
from threading import Event, Thread
from typing import Any, Self

import click

from moorage.errors import number_of, printable
from moorage.lazy import NamedTuple
from moorage.notes import FACT, WARNING, RoutineNote, with_notes

NOTES = "moorage.notes"
"""Of the context of a command: its notes."""
QUIET, VERBOSE = "moorage.quiet", "moorage.verbose"
"""Of the context of a command: whether it has -q, or -v."""
TOP = "moorage.top"
"""Of the context of a command: the value of --top, None for all rows."""
ROWS = 40
"""How many rows of a table are shown by default: those that decide come first."""
REFUSED = "moorage.refused"
"""Of the context of a command: whether the API server would refuse an object of the change."""
STAGES = "moorage.stages"
"""Of the context of a command: its `Stages`."""
BASIS, NOT_ASKED, MORE = "rests on", "not asked", "more"
"""More kinds of notes: what the answer rests on, in a few words; who decides and cannot be asked; how many
others stand below."""
LINES, LINES_OF_A_NOTE = 4, 2
"""How many lines of notes an answer has, the other notes stand below it; and how many one of them has."""
_ADVICE = re.compile(r"(?:;|: (?=kubectl))(?:(?!; ).)*$")
"""What a note says to do: its last clause."""
DELAY = 0.5
"""Seconds after which a command says what it does."""
TICK = 0.1
"""Seconds between two looks at it on a terminal."""
FIRST_OF_A_LOG, TICK_OF_A_LOG = 5.0, 30.0
"""The same where stderr is kept: the first line, and the others."""


class CommandNote(NamedTuple):
    """What a command has to say about its answer. Timings are no warnings, and do not count."""

    kind: str
    text: str

    @property
    def folds(self) -> bool:
        """Whether a terminal shows it only if asked."""
        return not self.kind or isinstance(self.text, RoutineNote)


def print_message(kind: str, message: str) -> None:
    """Print an error or a note on stderr in one line."""
    print(*filter(None, (kind and f"{kind}:", printable(" ".join(message.split())))), file=sys.stderr)


def note(kind: str, message: str) -> None:
    """Say something about an answer, in it or below it; in a command that has none, as those that serve, at
    once."""
    notes = _meta().get(NOTES)
    if notes is None:
        print_message(kind, message)
    else:
        notes.append(CommandNote(kind, message))


def print_warnings(warnings: Iterable[str]) -> None:
    """Say warnings, one line each."""
    for warning in warnings:
        note(WARNING, warning)


def with_own_notes(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the command's answer with the notes that may change it, which are not said below it
    any more."""
    notes: list[CommandNote] = _meta().get(NOTES, [])
    own = [each for kind in (WARNING, NOT_ASKED, FACT) for each in notes if each.kind == kind]
    own = [*dict.fromkeys(each for each in own if not each.folds)]
    width = sys.maxsize if _meta().get(VERBOSE) else terminal_width()
    above = {each: _shortened(each, width) for each in own}
    if not (_meta().get(VERBOSE) or _meta().get(QUIET)):  # which prints none below
        ends = accumulate(lines_of_note for _, lines_of_note in above.values())
        above = dict(compress(above.items(), (end <= LINES for end in ends)))
    shown = [(each.kind, text) for each, (text, _) in above.items()]
    if more := len(own) - len(above):
        shown.append((MORE, f"{number_of(more, 'note', 'notes')}; -v shows all here"))
    yield from with_notes(lines, shown)
    notes[:] = [each for each in notes if each not in above]


def _shortened(message: CommandNote, width: int) -> tuple[str, int]:
    """Return the text of a note that fits in its lines, and how many these are. What it says to do stays."""
    from moorage.answers.text_tables import prose_lines

    text = " ".join(message.text.split())
    head = f"{message.kind}: "
    lines = [*prose_lines([head + text], width)]
    if len(lines) <= LINES_OF_A_NOTE:
        return text, len(lines)
    kept = " ".join(map(str.strip, lines[:LINES_OF_A_NOTE])).removeprefix(head)
    advice = _ADVICE.search(text)
    end = f" …{advice[0]}" if advice and len(advice[0]) < width * LINES_OF_A_NOTE // 2 else " …"
    while len(kept) > 1 and len([*prose_lines([f"{head}{kept}{end}"], width)]) > LINES_OF_A_NOTE:
        kept = kept.rpartition(" ")[0]
    return f"{kept}{end}", LINES_OF_A_NOTE


def terminal_width() -> int:
    """Return the columns of the terminal on stdout; without one, no line is too long."""
    return get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def most_rows(form: str) -> int | None:
    """Return how many rows of a table the command shows in a format; None for all."""
    most: int | None = _meta().get(TOP, None if form == "wide" else ROWS)
    return most


def basis_of_answer() -> list[str]:
    """Return what the command's answer rests on, in a few words each."""
    notes: list[CommandNote] = _meta().get(NOTES, [])
    return [text for kind, text in notes if kind == BASIS]


def ranked(texts: Iterable[str]) -> list[str]:
    """Return notes that a document has as plain texts with the ranks that the command gives them."""
    notes: list[CommandNote] = _meta().get(NOTES, [])
    known = {each.text: each.text for each in notes}
    return [known.get(text, text) for text in texts]


def _meta() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def show_progress(ended: int, of: int) -> None:
    """Show how much of the command's stage is done."""
    if (stages := _meta().get(STAGES)) is not None:
        stages.count(of, lambda: ended)


class Stages:
    """Says on stderr what a command does, if it takes long: on a terminal in one line that comes and goes.

    Parameters
    ----------
    *names : str
        Names of the stages; the first one begins when the context is entered.
    """

    def __init__(self, *names: str) -> None:
        self._names = iter(names)
        self._began = time.monotonic()
        self._name = ""
        self._total = 0
        self._poll: Callable[[], int] = int
        self._ended = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._is_on_terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self()
        _meta()[STAGES] = self
        if not _meta().get(QUIET):
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __call__(self) -> None:
        """Begin the next stage."""
        self._name, self._total, self._poll = next(self._names), 0, int

    def count(self, total: int, poll: Callable[[], int]) -> None:
        """Show how much of the stage is done.

        Parameters
        ----------
        poll : callable
            Returns the number of what is done; it is called from another thread.
        """
        self._total, self._poll = total, poll

    def text(self) -> str:
        """Return what the command does, in one line."""
        done = self._poll()
        number = f" {done} of {max(done, self._total)}" if self._total else ""
        return f"{self._name}{number} ({time.monotonic() - self._began:.0f} s)"

    def _watch(self) -> None:
        """Write the line, and remove it at the end, until the command has ended."""
        delay = DELAY if self._is_on_terminal else FIRST_OF_A_LOG
        while not self._ended.wait(delay):
            if self._is_on_terminal:
                line = self.text()[: get_terminal_size().columns - 1]
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
                delay = TICK
            else:
                print(self.text(), file=sys.stderr, flush=True)
                delay = TICK_OF_A_LOG
        if delay == TICK:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
