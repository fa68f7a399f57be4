"""Reads YAML in the block style in which programs write it, line by line, without PyYAML.

Each line is one entry of a map or a list, and each scalar takes one line or is a literal block. All else,
and all that is not valid, is left to the reader of all of YAML: anchors, tags, flow style, scalars of
several lines, comments behind values, duplicate keys, bad indentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from moorage.lazy import NamedTuple

# The printable characters of YAML beyond ASCII, without line breaks and the byte order mark; of all printable
# characters those besides blank, # and :.
_OTHERS = r"\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_MAX_KEY = 250  # of 1,024 characters that YAML has between the beginning of a key and its colon


class _Patterns(NamedTuple):
    """Patterns of an entry, of a comment, and of the first line of a literal block."""

    entry: re.Pattern[str]
    comment: re.Pattern[str]
    literal: re.Pattern[str]


@cache
def _patterns(others: str) -> _Patterns:
    """Return the patterns for texts that have some characters beyond ASCII. Those for all of them take
    20 ms to compile, and few texts have any."""
    dark = rf'[!"$-9;-~{others}]'
    double, single = rf'"[ !#-\[\]-~{others}]*+"', rf"'(?:[ -&(-~{others}]|'')*+'"
    # A plain scalar contains neither ": " nor " #". Quantifiers are possessive, so that time is linear.
    plain = (
        rf"(?:[A-Za-z0-9_./+=~^$(<;]|-(?=[^ ])){dark}*+"
        rf"(?:(?::(?=[^ ])|\#| ++(?=[^ #])){dark}*+)*+"
    )
    key = rf"""[A-Za-z_][\w./-]*+(?::{dark}[\w./-]*+)*+|"[\w ./:-]*+"|'[\w ./:-]*+'"""
    value = rf"{plain}|{double}|{single}|\{{\}}|\[\]|\|-?"
    return _Patterns(
        re.compile(rf"( *+)((?:- ++)*+)(?:({key}):(?: ++|$))?+({value})?", re.ASCII),
        re.compile(rf" *#[ -~{others}]*"),
        re.compile(rf"( *)([!-~{others}][ -~{others}]*)"),
    )


_Frame = tuple[int, Any]
"""A list or map that is being read, and the column of its entries."""


class _Entry(NamedTuple):
    """An entry of a list or a map; its value may follow on the next lines."""

    column: int
    dashes: str
    key: str | None
    value: Any
    is_open: bool


class _OtherError(Exception):
    """The text is not in this style."""


def read_block_style(text: str, resolve: Callable[[str], Any], max_depth: int) -> list[Any] | None:
    """Read the documents of a YAML text in block style.

    Parameters
    ----------
    resolve : callable
        Returns the value of a plain scalar.
    max_depth : int
        Maximum number of lists and maps that contain each other.

    Returns
    -------
    list or None
        One JSON value per document, None for an empty one; None where the text is not in this style.
    """
    try:
        return _BlockReader(text, resolve, max_depth).read()
    except _OtherError:
        return None


class _BlockReader:
    """The state of reading one text."""

    def __init__(self, text: str, resolve: Callable[[str], Any], max_depth: int) -> None:
        self._lines = text.split("\n")
        self._patterns = _patterns("" if text.isascii() else _OTHERS)
        self._resolve = resolve
        self._max_depth = max_depth
        self._entries: dict[str, _Entry] = {}  # by line, since the lines of like objects are the same
        self._frames: list[_Frame] = []
        self._pending: list[str | None] = []  # for each frame the key whose value may follow

    def read(self) -> list[Any]:
        documents: list[Any] = []
        has_document = False
        lines, at, entries, patterns = self._lines, 0, self._entries, self._patterns
        while at < len(lines):
            line = lines[at]
            at += 1
            entry = entries.get(line)
            if entry is None:
                match = patterns.entry.fullmatch(line)
                if line == "---":
                    if has_document:
                        documents.append(self._root())
                    has_document = True
                    self._frames.clear()
                    self._pending.clear()
                    continue
                if not line or (match is None and patterns.comment.fullmatch(line)):
                    continue
                if match is None:
                    raise _OtherError
                entry, at = self._parse(match, at)
            has_document = True
            self._enter(*entry)
        if has_document:
            documents.append(self._root())
        return documents

    def _parse(self, line: re.Match[str], at: int) -> tuple[_Entry, int]:
        """Return the entry of a line, and the number of the next line."""
        indent, dashes, key, value = line.groups()
        name = None if key is None else self._key(key)
        if value in ("{}", "[]"):
            return _Entry(len(indent), dashes, name, {} if value == "{}" else [], False), at
        if value in ("|", "|-"):
            column = len(indent) + (len(dashes) if key else dashes.rfind("-"))
            text, at = self._literal(at, column, value)
            return _Entry(len(indent), dashes, name, text, False), at
        entry = _Entry(len(indent), dashes, name, value and self._scalar(value), value is None)
        self._entries[line[0]] = entry
        return entry, at

    def _root(self) -> Any:
        return self._frames[0][1] if self._frames else None

    def _enter(self, column: int, dashes: str, key: str | None, item: Any, is_open: bool) -> None:
        """Add an entry to the list or map at its column; a dash before another dash or a key opens one."""
        is_item = False
        while dashes:
            items: Any = self._container(column, list, is_item)
            is_item = True
            width = dashes.find("-", 1)
            if width < 0:
                width = len(dashes)
            dashes, column = dashes[width:], column + width
            if not dashes and key is None:
                if is_open:
                    raise _OtherError
                items.append(item)
                return
        if key is None:
            raise _OtherError
        frames = self._frames
        if not is_item and frames and frames[-1][0] == column and type(frames[-1][1]) is dict:
            members = frames[-1][1]
        else:
            members = self._container(column, dict, is_item)
        if key in members:
            raise _OtherError
        members[key] = item
        self._pending[-1] = key if is_open else None

    def _container(self, column: int, kind: type[list[Any] | dict[str, Any]], is_item: bool) -> Any:
        """Return the list or map whose entries are at a column; a new one as an item of the last list."""
        frames, pending = self._frames, self._pending
        if not is_item:
            while frames and frames[-1][0] > column:
                frames.pop()
                pending.pop()
            if kind is dict and len(frames) > 1 and frames[-2][0] == column == frames[-1][0]:
                frames.pop()  # a list at the column of the key that it belongs to
                pending.pop()
            if frames and frames[-1][0] == column and type(frames[-1][1]) is kind:
                return frames[-1][1]
        if len(frames) == self._max_depth:
            raise _OtherError
        new, name = kind(), pending[-1] if pending else None
        if is_item:
            frames[-1][1].append(new)
        elif name is not None and (frames[-1][0] < column or kind is list):
            frames[-1][1][name] = new
            pending[-1] = None
        elif frames or column:
            raise _OtherError
        frames.append((column, new))
        pending.append(None)
        return new

    def _key(self, text: str) -> str:
        name = text[1:-1] if text[0] in "\"'" else self._resolve(text)
        if type(name) is not str or len(name) > _MAX_KEY:
            raise _OtherError
        return name

    def _scalar(self, text: str) -> Any:
        if text[0] == '"':
            return text[1:-1]
        return text[1:-1].replace("''", "'") if text[0] == "'" else self._resolve(text)

    def _literal(self, at: int, column: int, style: str) -> tuple[str, int]:
        """Return the text of a literal block below an entry at a column, and the number of the next line."""
        lines, kept, end = self._lines, list[str](), 0
        first = self._patterns.literal.fullmatch(lines[at]) if at < len(lines) else None
        if first is None or (indent := first.end(1)) <= column:
            raise _OtherError
        for end in range(at, len(lines)):
            line = lines[end]
            if line and line[:indent].strip(" "):
                break
            if line and not self._patterns.literal.fullmatch(line):
                raise _OtherError
            kept.append(line[indent:])
        else:
            end = len(lines)
            if kept[-1]:  # the last line has no end
                raise _OtherError
        if end < len(lines) and self._patterns.comment.fullmatch(lines[end]):
            raise _OtherError
        while not kept[-1]:
            kept.pop()
        return "\n".join(kept) + "\n" * (style == "|"), end


# ---- plain scalars -----------------------------------------------------------------------------------------

_CONSTANTS: dict[str, bool | None] = {
    word: value
    for value, words in (
        (True, "y Y yes Yes YES true True TRUE on On ON"),
        (False, "n N no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
    )
    for word in words.split()
} | {"": None}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"\.(nan|NaN|NAN)|[-+]?\.(inf|Inf|INF)")
_MAX_DIGITS = 400
MAX_DEPTH = 200
"""How deep lists and maps may be nested."""


class UnplacedError(Exception):
    """An error without its line, which the caller adds."""


def resolve_plain(text: str) -> Any:
    """Return the value of a plain scalar (sigs.k8s.io/yaml, goyaml.v2 ``resolve``).

    A float without fraction is an integer, as in the JSON that Go writes for it.

    Parameters
    ----------
    text : str
        The scalar, without quotes and tag.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise UnplacedError(f"{text} is not a number that JSON knows")
    plain = text.replace("_", "") if text[0] != "." else text
    if len(plain) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(plain):
            digits = plain.lstrip("+-")
            octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            return int(plain, 8) if octal else int(plain, 0)
        if _FLOAT.fullmatch(plain):
            number = float(plain)
            if math.isfinite(number):
                return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return text


def is_text(plain: str) -> bool:
    """Whether a plain scalar is read as a string."""
    try:
        return bool(resolve_plain(plain) == plain)
    except UnplacedError:
        return False
