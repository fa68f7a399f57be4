"""Builds JSON values from libyaml's events, for texts of every style.

Because values are built from events, excessive depth, aliases and tags are refused with their line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml import events

from moorage.errors import InputError, shorten
from moorage.lazy import NamedTuple

from ..apiserver.unknown_fields import Path, path_text
from .block_yaml import MAX_DEPTH, UnplacedError, resolve_plain

INDENT = "; indent with spaces, not with a tab"
MAX_ALIASED = 1_000_000
"""Maximum number of characters and nodes to which the aliases of one document may expand in total."""
_TAG = "tag:yaml.org,2002:"


class DuplicateKey(NamedTuple):
    """A key that occurs twice in a map."""

    line: int
    """Of the value, counted from 1."""
    path: Path
    """Keys and indices from the document to the value."""


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
    raise UnplacedError(f"tag {tag} is not allowed here")


def _key(value: Any) -> str:
    """Return a map key; numbers and booleans become text, as in sigs.k8s.io/yaml."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise UnplacedError("a key must be a string")


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
            name = event.anchor or ""
            if name not in self._anchors:
                loop = name in self._open
                raise UnplacedError(f"alias *{name} {'contains itself' if loop else 'is not defined'}")
            value, size = self._anchors[name]
            self._size += size
            self._aliased += size
            if self._aliased > MAX_ALIASED:
                raise UnplacedError("aliases expand to too much data")
            return value
        size = self._size
        if isinstance(event, events.ScalarEvent):
            value = _scalar(event)
            self._size += 1 + len(event.value)
        else:
            mapping = isinstance(event, events.MappingStartEvent)
            if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
                raise UnplacedError(f"tag {event.tag} is not allowed here")
            if len(self._open) == MAX_DEPTH:
                raise UnplacedError(f"nested more than {MAX_DEPTH} levels deep")
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
                raise UnplacedError("a key must be a string")
            key = _key(self._value(event))
            self._path.append(key)
            if key in members and self.duplicates is None:
                raise UnplacedError(f'duplicate field "{path_text(self._path)}"')
            event, line = self._next(), self.line
            value = self._value(event)
            if key in members and self.duplicates is not None:
                self.duplicates.append(DuplicateKey(line, tuple(self._path)))
            members[key] = value
            self._path.pop()
        for source in merged:  # keys of the map itself take precedence, then earlier merges
            members = members | source | members
        return members


def _merged(value: Any) -> list[dict[str, Any]]:
    """The maps that ``<<`` merges."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise UnplacedError("only maps can be merged with <<")
    return sources


def documents(text: str, source: str, duplicates: list[DuplicateKey] | None = None) -> Iterator[Any]:
    """Yield the value of each document of a text, None for an empty one; see `read_yaml`."""
    builder = _Builder(text, duplicates)
    try:
        yield from builder.documents()
    except UnplacedError as error:
        raise _at(builder.line, source, shorten(str(error))) from None
    except yaml.MarkedYAMLError as error:
        line = builder.line if error.problem_mark is None else error.problem_mark.line + 1
        begins = "".join(text.splitlines()[line - 1 : line]).lstrip(" ")
        is_tab = begins.startswith("\t") and " tab " not in str(error.problem)
        raise _at(line, source, f"invalid YAML: {error.problem}{INDENT * is_tab}") from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise InputError(f"invalid YAML: {reason}", source=source) from None


def _at(line: int, source: str, message: str) -> InputError:
    """Return an error about a line of a file, or of a text that the caller names."""
    if source:
        return InputError(message, source=f"{source}:{line}")
    return InputError(f"line {line}: {message}")
