"""YAML as Kubernetes reads it: one JSON value per document, built from libyaml's events.

The rules are those of sigs.k8s.io/yaml (YAML 1.1 booleans, Go's integer spellings, no timestamps, no
base-60 numbers, scalar keys become strings), and duplicate keys are an error. Building from events,
without recursion, is what lets depth, aliases and tags be refused with their line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml import events

from moorage.errors import InputError, shorten

MAX_DEPTH = 200
MAX_ALIASED = 1_000_000
"""Characters and nodes that the aliases of one document may stand for, all together."""

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
_MERGE = object()


DuplicateKey = tuple[int, str]
"""Line of the value (from 1), and the key."""


class _RefusedError(Exception):
    """An error without its line, which the caller adds."""


class _Frame:
    """A list or map under construction."""

    __slots__ = ("anchor", "key", "line", "merges", "size", "value")

    def __init__(self, value: list[Any] | dict[str, Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.size = 1
        self.key: Any = None
        self.merges: list[dict[str, Any]] = []


def resolve_plain(text: str) -> Any:
    """The value of a plain scalar (sigs.k8s.io/yaml, goyaml.v2 ``resolve``).

    A float without fraction is an integer, as it is in the JSON that Go writes for it.

    Parameters
    ----------
    text : str
        Without quotes and tag.

    Returns
    -------
    str, int, float, bool or None
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
    """A map key: numbers and booleans become text, as in sigs.k8s.io/yaml."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _RefusedError("a key must be a string")


class _Builder:
    """Builds the value of one document.

    Without a list of `duplicates` a duplicate key is an error; with one it is noted there, and the last of
    equal keys counts.
    """

    def __init__(self, duplicates: list[DuplicateKey] | None = None) -> None:
        self.duplicates = duplicates
        self.line = 1
        self.root: Any = None
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.aliased = 0

    def handle(self, event: events.Event, line: int) -> None:
        self.line = line
        if isinstance(event, events.ScalarEvent):
            self._handle_scalar(event)
        elif isinstance(event, events.MappingStartEvent | events.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
            self._close()
        elif isinstance(event, events.AliasEvent):
            self._alias(event.anchor or "")

    def _handle_scalar(self, event: events.ScalarEvent) -> None:
        is_key = bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None
        if is_key and event.value == "<<" and event.implicit[0]:
            self.stack[-1].key = _MERGE
            return
        value = _scalar(event)
        size = 1 + len(event.value)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, size)
        self._add(value, size)

    def _open(self, event: events.MappingStartEvent | events.SequenceStartEvent) -> None:
        mapping = isinstance(event, events.MappingStartEvent)
        if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
            raise _RefusedError(f"tag {event.tag} is not allowed here")
        if len(self.stack) == MAX_DEPTH:
            raise _RefusedError(f"nested more than {MAX_DEPTH} levels deep")
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            raise _RefusedError("a key must be a string")
        self.stack.append(_Frame({} if mapping else [], event.anchor, self.line))

    def _close(self) -> None:
        frame = self.stack.pop()
        if isinstance(frame.value, dict):
            for merged in frame.merges:  # keys of the map itself win, then those of the earlier merge
                for key, value in merged.items():
                    frame.value.setdefault(key, value)
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, frame.size)
        self.line = frame.line
        self._add(frame.value, frame.size)

    def _alias(self, name: str) -> None:
        if name not in self.anchors:
            loop = any(frame.anchor == name for frame in self.stack)
            raise _RefusedError(f"alias *{name} {'contains itself' if loop else 'is not defined'}")
        value, size = self.anchors[name]
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            raise _RefusedError("aliases expand to too much data")
        self._add(value, size)

    def _add(self, value: Any, size: int) -> None:
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        frame.size += size
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is None:
            frame.key = _key(value)
            if frame.key in frame.value and self.duplicates is None:
                raise _RefusedError(f'duplicate key "{frame.key}"')
        else:
            if frame.key is _MERGE:
                self._merge(frame, value)
            else:
                if frame.key in frame.value and self.duplicates is not None:
                    self.duplicates.append((self.line, frame.key))
                frame.value[frame.key] = value
            frame.key = None

    @staticmethod
    def _merge(frame: _Frame, value: Any) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise _RefusedError("only maps can be merged with <<")
            frame.merges.append(source)


def read_yaml(text: str, source: str) -> Iterator[Any]:
    """Read the documents of a YAML text, without empty ones.

    Parameters
    ----------
    text : str
    source : str
        The name of the file, for errors.

    Returns
    -------
    iterator of object
        One JSON value per document.

    Raises
    ------
    InputError
        For text that is not YAML, duplicate keys, tags, alias loops and bombs, deep nesting; the error
        names `source` with the line.
    """
    return (document for document in _documents(text, source) if document is not None)


def read_first(text: str, source: str) -> tuple[Any, list[DuplicateKey]]:
    """Read the first document of a YAML text, None if it is empty.

    Duplicate keys are no error here: they are returned, in the order in which Go's strict reading reports
    them, and the last value counts.

    Parameters
    ----------
    text : str
    source : str
        The name of the file, for errors.

    Returns
    -------
    document : object
    duplicates : list of (int, str)
        Line and key.

    Raises
    ------
    InputError
        As `read_yaml`.
    """
    duplicates: list[DuplicateKey] = []
    return next(_documents(text, source, duplicates), None), duplicates


def _documents(text: str, source: str, duplicates: list[DuplicateKey] | None = None) -> Iterator[Any]:
    builder = _Builder(duplicates)
    line = 1
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else line
            if isinstance(event, events.DocumentStartEvent):
                builder = _Builder(duplicates)
            elif isinstance(event, events.DocumentEndEvent):
                yield builder.root
            else:
                builder.handle(event, line)
    except _RefusedError as error:
        raise InputError(shorten(str(error)), source=f"{source}:{line}") from None
    except yaml.MarkedYAMLError as error:
        if error.problem_mark is not None:
            line = error.problem_mark.line + 1
        raise InputError(f"invalid YAML: {error.problem}", source=f"{source}:{line}") from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise InputError(f"invalid YAML: {reason}", source=source) from None
