"""Objects of one template that differ in numbers alone, as in names: one is decoded, others are filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

MARK = "98765432"
"""Begins what stands for a number; one more digit says for which."""
MOST_NUMBERS = 10
# No longer than a mark: a name that may have a mark may have a number.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
# YAML reads these as strings, whatever the numbers are.
_TEXT = re.compile(rf"[A-Za-z][A-Za-z0-9./-]*?(?:-{MARK}[0-9])+")

Fill = Callable[[Mapping[str, str]], Any]
"""Returns an object with the numbers of marks."""


class _UnfillableError(Exception):
    """A mark is where a number may change more than a string."""


def marked(pieces: Iterable[tuple[str, bool]]) -> tuple[str, dict[str, str]]:
    """Return a text with marks in place of the numbers that differ from object to object.

    Parameters
    ----------
    pieces : iterable of (str, bool)
        The text in pieces, and whether a piece differs from object to object.

    Returns
    -------
    text : str
    numbers : dict of str to str
        The number of each mark, in the order of the text; empty if there are more than `MOST_NUMBERS`.
    """
    numbers: dict[str, str] = {}
    text = []
    for piece, differs in pieces:
        if differs and _NUMBER.fullmatch(piece):
            mark = f"{MARK}{len(numbers)}"
            numbers[mark] = piece
            text.append(mark)
        else:
            text.append(piece)
    return "".join(text), numbers if len(numbers) <= MOST_NUMBERS else {}


def filler(value: Any, marks: Collection[str]) -> Fill | None:
    """Return what fills numbers into an object whose names and values have marks.

    Parameters
    ----------
    value : object
        A struct, and the structs, tuples, lists, dictionaries and strings in its fields.
    marks : collection of str
        The marks of the text that it was decoded from, each of which stands there once.

    Returns
    -------
    callable or None
        None unless each mark is found at the end of a string that begins with a letter. Keys, and lists of
        several items, have none: they may have to differ from one another.
    """
    found: set[str] = set()
    try:
        fill = _filler(value, found)
    except _UnfillableError:
        return None
    return fill if found == set(marks) else None


def _filler(value: Any, found: set[str]) -> Fill | None:
    """What fills a value; None if it has no marks."""
    if isinstance(value, str):
        return _text_filler(value, found) if MARK in value else None
    if isinstance(value, msgspec.Struct):
        fills = _fillers({name: getattr(value, name) for name in value.__struct_fields__}, found)
        return (lambda numbers: replace(value, **_filled(fills, numbers))) if fills else None
    if type(value) is dict:
        fills = _fillers(value, found)
        return (lambda numbers: value | _filled(fills, numbers)) if fills else None
    if type(value) in (list, tuple):
        items = _fillers(dict(enumerate(value)), found)
        if items and len(value) > 1:
            raise _UnfillableError
        build = type(value)
        return (lambda numbers: build(_filled(items, numbers).values())) if items else None
    return None


def _fillers(items: Mapping[Any, Any], found: set[str]) -> dict[Any, Fill]:
    """What fills the items that have marks."""
    if any(MARK in str(key) for key in items):
        raise _UnfillableError
    fills = ((key, _filler(item, found)) for key, item in items.items())
    return {key: fill for key, fill in fills if fill is not None}


def _filled(fills: Mapping[Any, Fill], numbers: Mapping[str, str]) -> dict[Any, Any]:
    return {key: fill(numbers) for key, fill in fills.items()}


def _text_filler(value: str, found: set[str]) -> Fill:
    if not _TEXT.fullmatch(value):
        raise _UnfillableError
    head, *ends = value.split(f"-{MARK}")
    marks = [MARK + end for end in ends]
    found.update(marks)
    return lambda numbers: "-".join([head, *[numbers[mark] for mark in marks]])
