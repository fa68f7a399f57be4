"""Functions of texts: the extension "strings" of cel-go, version 2."""

from __future__ import annotations

from typing import Any

from moorage.kube.cel import overloads as cost

from ..cel_errors import EvaluationError
from ..cel_types import DYN, INT, STRING, list_of
from ..overloads import Library
from ..work import count_work
from .standard_functions import to_string
from .string_format import format_text

_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACES += "\u2028\u2029\u202f\u205f\u3000"

TEXTS = list_of(STRING)


def add_string_functions(library: Library) -> None:
    """Add the overloads of this module."""
    member = library.member
    member("charAt", [STRING, INT], STRING, _char_at)
    member("indexOf", [STRING, STRING], INT, lambda a, b: a.find(b), cost.traversal)
    member("indexOf", [STRING, STRING, INT], INT, _index_of, cost.traversal)
    member("lastIndexOf", [STRING, STRING], INT, lambda a, b: a.rfind(b), cost.traversal)
    member("lastIndexOf", [STRING, STRING, INT], INT, _last_index_of, cost.traversal)
    member("lowerAscii", [STRING], STRING, lambda a: a.translate(_LOWER), cost.traversal)
    member("upperAscii", [STRING], STRING, lambda a: a.translate(_UPPER), cost.traversal)
    member("replace", [STRING, STRING, STRING], STRING, _replace, cost.two_traversals)
    member("replace", [STRING, STRING, STRING, INT], STRING, _replace, cost.two_traversals)
    member("split", [STRING, STRING], TEXTS, lambda a, b: _split(a, b, -1), cost.two_traversals)
    member("split", [STRING, STRING, INT], TEXTS, _split, cost.two_traversals)
    member("substring", [STRING, INT], STRING, _substring, cost.traversal)
    member("substring", [STRING, INT, INT], STRING, _substring, cost.traversal)
    member("trim", [STRING], STRING, lambda a: a.strip(_SPACES), cost.traversal)
    member("join", [TEXTS], STRING, _join, cost.result_traversals)
    member("join", [TEXTS, STRING], STRING, _join, cost.result_traversals)
    member("format", [STRING, list_of(DYN)], STRING, format_text, cost.traversal)
    library.function("strings.quote", [STRING], STRING, quote, cost.traversal)


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(text: str, part: str, at: int) -> int:
    if not part:
        return at
    if at < 0:
        raise EvaluationError(f"index out of range: {at}")
    return text.find(part, at)


def _last_index_of(text: str, part: str, at: int) -> int:
    if not part:
        return at
    if at < 0:
        raise EvaluationError(f"index out of range: {at}")
    return text.rfind(part, 0, at + len(part)) if at < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    count_work(len(text) + text.count(old) * len(new))
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, limit: int) -> tuple[str, ...]:
    if limit == 0:
        return ()
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if limit < 0 or limit > len(text):
        return tuple(text)
    return (*text[: limit - 1], text[limit - 1 :])


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for at in (start, len(text) if end is None else end):
        if not 0 <= at <= len(text):
            raise EvaluationError(f"index out of range: {at}")
    return text[start:end]


def _join(texts: tuple[Any, ...], separator: str = "") -> str:
    for text in texts:
        if type(text) is not str:
            raise EvaluationError(f"join: invalid input: {_go_value(text)}")
    count_work(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


def _go_value(value: Any) -> str:
    """A value as Go's ``%v`` shows it."""
    if isinstance(value, tuple | bytes):
        return f"[{' '.join(map(_go_value, value))}]"
    return "0" if value is None else to_string(value)


def quote(text: str) -> str:
    """Return a text in double quotes, with escapes for special characters."""
    escapes = dict(zip('\a\b\f\n\r\t\v\\"', (*"abfnrtv", "\\", '"'), strict=True))
    return '"' + "".join([f"\\{escapes[one]}" if one in escapes else one for one in text]) + '"'
