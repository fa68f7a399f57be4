"""Notes of an answer, and their ranks.

A note that is a plain text may change the verdict, and always shows above the tables. A `RoutineNote` folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Self

WARNING, FACT = "warning", "input"
"""Kinds of notes: about the input and the run; what the input says of itself."""


class RoutineNote(str):
    """A note that each question about an input has, whatever its answer.

    Attributes
    ----------
    short : str
        The note in a few words, for the line that says what an answer rests on; "" if that does not name it.
    """

    __slots__ = ("short",)
    short: str

    def __new__(cls, text: str, short: str = "") -> Self:
        note = super().__new__(cls, text)
        note.short = short
        return note

    def __reduce__(self) -> tuple[type[RoutineNote], tuple[str, str]]:
        return RoutineNote, (str(self), self.short)


class DecidingLine(str):
    """A line of an answer that says what decides: notes stand below it."""

    __slots__ = ()


class LineBelow(str):
    """A line of an answer that stands below its tables, as they decide."""

    __slots__ = ()


def basis_of(first: Iterable[str], notes: Iterable[str], more: Iterable[str] = ()) -> list[str]:
    """Return what an answer rests on, in a few words each: first releases, what notes have in short, more."""
    texts = [*first]
    texts += [note.short for note in notes if isinstance(note, RoutineNote) and note.short]
    return [*dict.fromkeys([*texts, *more])]


def reworded(note: str, text: str) -> str:
    """Return another text of the rank of a note."""
    return RoutineNote(text, note.short) if isinstance(note, RoutineNote) else text


def as_sentence(note: str) -> str:
    """Return a note as a sentence, of its rank."""
    return reworded(note, f"{note[:1].upper()}{note[1:].removesuffix('.')}.")


def of_kinds(warnings: Iterable[str], facts: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return notes with their kinds, facts first."""
    return [*((FACT, text) for text in facts), *((WARNING, text) for text in warnings)]


def basis_line(basis: Iterable[str]) -> list[str]:
    """Return the line below an answer that says what it rests on; none if it rests on nothing to name."""
    named = [*dict.fromkeys(basis)]
    return [f"rests on: {'; '.join(named)}"] if named else []


def with_notes(lines: Iterable[str], notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield an answer: its first line, what else fails and what decides, the notes that may change it, and
    its other lines.

    Parameters
    ----------
    notes : iterable of (str, str)
        Their kinds and texts, of any rank.
    """
    first, *rest = [*lines] or [""]
    above = [*takewhile(lambda line: line.startswith("FAIL: ") or isinstance(line, DecidingLine), rest)]
    yield from filter(None, (first, *above))
    shown = (each for each in dict.fromkeys(notes) if not isinstance(each[1], RoutineNote))
    yield from (f"{kind}: {' '.join(text.split())}" for kind, text in shown)
    yield from rest[len(above) :]
