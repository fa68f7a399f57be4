"""Reads YAML as Kubernetes does: one JSON value per document, built from libyaml's events.

The rules are those of sigs.k8s.io/yaml: YAML 1.1 booleans, Go's integer spellings, no timestamps, no base-60
numbers, scalar keys become strings. Duplicate keys are an error. Because values are built from events,
excessive depth, aliases and tags are refused with their line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml
from yaml import events

from moorage.errors import InputError, shorten
from moorage.objects.validate.unknown_fields import Path, path_text

MAX_DEPTH = 200
MAX_ALIASED = 1_000_000
"""Maximum number of characters and nodes to which the aliases of one document may expand in total."""

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
_TAG = "tag:yaml.org,2002:"


class DuplicateKey(NamedTuple):
    """A key that occurs twice in a map."""

    line: int
    """Of the value, counted from 1."""
    path: Path
    """Keys and indices from the document to the value."""


class _RefusedError(Exception):
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
        raise _RefusedError(f"{text} is not a number that JSON knows")
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
    """Whether a plain scalar is read as a string.

    Parameters
    ----------
    plain : str
        The scalar.
    """
    try:
        return bool(resolve_plain(plain) == plain)
    except _RefusedError:
        return False


def _scalar(event: events.ScalarEvent) -> Any:
    tag = event.tag
    if tag is None and event.implicit[0]:
        return resolve_plain(event.value)
    if tag in (None, "!", _TAG + "str"):
        return event.value
    value = resolve_plain(event.value)
    if (tag == _TAG + "null" and value is None) or (tag == _TAG + "bool" and isinstance(value, bool)):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (tag == _TAG + "float" or (tag == _TAG + "int" and isinstance(value, int))):
        return value
    raise _RefusedError(f"tag {tag} is not allowed here")


def _key(value: Any) -> str:
    """Return a map key; numbers and booleans become text, as in sigs.k8s.io/yaml."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _RefusedError("a key must be a string")


class _Builder:
    """Builds the values of a text's documents.

    With a list of `duplicates`, duplicate keys are recorded in it and the last of equal keys counts; without
    one they are an error.
    """

    def __init__(self, text: str, duplicates: list[DuplicateKey] | None) -> None:
        self.duplicates = duplicates
        self.line = 1
        self._path: list[str | int] = []  # to the value that is being read
        self._events = yaml.parse(text, Loader=yaml.CSafeLoader)

    def documents(self) -> Iterator[Any]:
        """The value of each document, None for an empty one."""
        value: Any = None
        while not isinstance(event := self._next(), events.StreamEndEvent):
            if isinstance(event, events.DocumentStartEvent):
                self._anchors: dict[str, tuple[Any, int]] = {}
                self._open: list[str | None] = []  # anchors of the enclosing lists and maps
                self._size = self._aliased = 0
                value = self._value(self._next())
            elif isinstance(event, events.DocumentEndEvent):
                yield value

    def _next(self) -> Any:
        event = next(self._events)
        if event.start_mark:
            self.line = event.start_mark.line + 1
        return event

    def _value(self, event: Any) -> Any:
        """The value that starts with an event; the size grows by its nodes and characters."""
        if isinstance(event, events.AliasEvent):
            return self._alias(event.anchor or "")
        size = self._size
        value: Any
        if isinstance(event, events.ScalarEvent):
            value = _scalar(event)
            self._size += 1 + len(event.value)
        else:
            mapping = isinstance(event, events.MappingStartEvent)
            if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
                raise _RefusedError(f"tag {event.tag} is not allowed here")
            if len(self._open) == MAX_DEPTH:
                raise _RefusedError(f"nested more than {MAX_DEPTH} levels deep")
            self._open.append(event.anchor)
            self._size += 1
            value = self._map() if mapping else self._list()
            self._open.pop()
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._size - size
        return value

    def _list(self) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            self._path.append(len(items))
            items.append(self._value(event))
            self._path.pop()
        return items

    def _map(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        while not isinstance(event := self._next(), events.MappingEndEvent):
            if isinstance(event, events.ScalarEvent) and event.value == "<<" and event.implicit[0]:
                merged += _merged(self._value(self._next()))
                continue
            if isinstance(event, events.CollectionStartEvent):
                raise _RefusedError("a key must be a string")
            key = _key(self._value(event))
            self._path.append(key)
            if key in members and self.duplicates is None:
                raise _RefusedError(f'duplicate field "{path_text(self._path)}"')
            event, line = self._next(), self.line
            value = self._value(event)
            if key in members and self.duplicates is not None:
                self.duplicates.append(DuplicateKey(line, tuple(self._path)))
            members[key] = value
            self._path.pop()
        for source in merged:  # keys of the map itself take precedence, then earlier merges
            members = members | source | members
        return members

    def _alias(self, name: str) -> Any:
        if name not in self._anchors:
            loop = name in self._open
            raise _RefusedError(f"alias *{name} {'contains itself' if loop else 'is not defined'}")
        value, size = self._anchors[name]
        self._size += size
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _RefusedError("aliases expand to too much data")
        return value


def _merged(value: Any) -> list[dict[str, Any]]:
    """The maps that ``<<`` merges."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise _RefusedError("only maps can be merged with <<")
    return sources


def read_yaml(text: str, source: str, duplicates: list[DuplicateKey] | None = None) -> Iterator[Any]:
    """Read the documents of a YAML text, without empty ones.

    Parameters
    ----------
    text : str
        YAML text.
    source : str
        Name of the file, for errors.
    duplicates : list of DuplicateKey, optional
        Gets the duplicate keys, of which the last value counts; without a list they are an error.

    Yields
    ------
    object
        One JSON value per document.

    Raises
    ------
    InputError
        The text is not YAML, or has duplicate keys, tags, alias loops or bombs, or deep nesting; names
        `source` and the line.
    """
    from .block_yaml import read_block_style  # its patterns take 20 ms to compile

    try:
        documents: Iterable[Any] | None = read_block_style(text, resolve_plain, MAX_DEPTH)
    except _RefusedError:
        documents = None
    if documents is None:
        documents = _documents(text, source, duplicates)
    return (document for document in documents if document is not None)


def read_first(text: str, source: str) -> tuple[Any, list[DuplicateKey]]:
    """Read the first document of a YAML text, None if it is empty.

    Duplicate keys are not an error. They are returned in the order in which Go's strict decoding reports
    them, and the last value counts.

    Parameters
    ----------
    text : str
        YAML text.
    source : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        The text is not YAML; see `read_yaml`.
    """
    duplicates: list[DuplicateKey] = []
    return next(_documents(text, source, duplicates), None), duplicates


def _documents(text: str, source: str, duplicates: list[DuplicateKey] | None = None) -> Iterator[Any]:
    builder = _Builder(text, duplicates)
    try:
        yield from builder.documents()
    except _RefusedError as error:
        raise InputError(shorten(str(error)), source=f"{source}:{builder.line}") from None
    except yaml.MarkedYAMLError as error:
        line = builder.line if error.problem_mark is None else error.problem_mark.line + 1
        raise InputError(f"invalid YAML: {error.problem}", source=f"{source}:{line}") from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise InputError(f"invalid YAML: {reason}", source=source) from None
