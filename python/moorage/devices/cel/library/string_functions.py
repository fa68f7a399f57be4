"""Functions of texts: the extension "strings" of cel-go, version 2."""

from __future__ import annotations

import math
import re
from typing import Any

from moorage.devices.cel import overloads as cost
from moorage.devices.cel.cel_errors import EvaluationError
from moorage.devices.cel.cel_types import DYN, INT, STRING, CelType, list_of
from moorage.devices.cel.overloads import Library
from moorage.devices.cel.values import (
    Duration,
    MapValue,
    Timestamp,
    Uint,
    size_of,
    text_of_key,
    type_of_value,
)
from moorage.devices.cel.work import count_work

from .standard_functions import double_text, to_string
from .times import duration_text, timestamp_text

_CLAUSE = re.compile(r"%(?:%|(?:\.(\d+))?(.?))", re.DOTALL)
_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACES += "\u2028\u2029\u202f\u205f\u3000"
_MAX_PRECISION = 1000

TEXTS = list_of(STRING)


def add_string_functions(library: Library) -> None:
    """Add the overloads of this module.

    Parameters
    ----------
    library : Library
    """
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
    member("substring", [STRING, INT], STRING, lambda a, b: _substring(a, b, len(a)), cost.traversal)
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
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text.find(part, at)


def _last_index_of(text: str, part: str, at: int) -> int:
    if not part:
        return at
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text.rfind(part, 0, at + len(part))


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


def _substring(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for at in (start, end):
        if not 0 <= at <= len(text):
            raise EvaluationError(f"index out of range: {at}")
    return text[start:end]


def _join(texts: tuple[Any, ...], separator: str = "") -> str:
    for one in texts:
        if type(one) is not str:
            raise EvaluationError("no such overload")
    count_work(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


def quote(text: str) -> str:
    """Return a text in double quotes, with escapes for special characters."""
    escapes = dict(zip('\a\b\f\n\r\t\v\\"', (*"abfnrtv", "\\", '"'), strict=True))
    return '"' + "".join([f"\\{escapes[one]}" if one in escapes else one for one in text]) + '"'


def clauses(template: str) -> list[tuple[str, str]]:
    """Return precision and letter of each clause of a template that takes an argument."""
    return [(one[1] or "", one[2]) for one in _CLAUSE.finditer(template) if one[0] != "%%"]


def format_text(template: str, arguments: tuple[Any, ...]) -> str:
    """Fill in a template such as ``"%s-%d"``.

    Parameters
    ----------
    template : str
    arguments : tuple
        One value for each clause.

    Returns
    -------
    str

    Raises
    ------
    EvaluationError
        A clause is unknown, has no value, or one of another type.
    """
    rest = list(arguments)[::-1]
    parts: list[str] = []
    end = 0
    for match in _CLAUSE.finditer(template):
        parts.append(template[end : match.start()])
        end = match.end()
        if match[0] == "%%":
            parts.append("%")
            continue
        if not rest:
            raise EvaluationError(f"index {len(arguments)} out of range")
        parts.append(_clause(match[2], match[1], rest.pop()))
        count_work(len(parts[-1]))
    return "".join([*parts, template[end:]])


def _clause(letter: str, precision: str, value: Any) -> str:
    if letter == "s":
        return _shown(value)
    if letter == "d":
        return _integer(value, "")
    if letter in ("f", "e"):
        return _fixed(letter, precision, value)
    if letter in ("b", "o", "x", "X"):
        return _digits(letter, value)
    raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')


def _wrong(what: str, allowed: str, value: Any) -> EvaluationError:
    name = type_of_value(value).name
    return EvaluationError(
        f"error during formatting: {what} clause can only be used on {allowed}, was given {name}"
    )


def _shown(value: Any) -> str:
    """A value as ``%s`` shows it."""
    count_work(size_of(value))
    if isinstance(value, tuple):
        return f"[{', '.join([_shown(one) for one in value])}]"
    if isinstance(value, MapValue):
        entries = sorted((text_of_key(key), _shown(item)) for key, item in value.items())
        return f"{{{', '.join([f'{key}: {item}' for key, item in entries])}}}"
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, CelType):
        return value.name
    if isinstance(value, str | bool | int | float):
        return to_string(value)
    allowed = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
    raise _wrong("string", allowed, value)


def _integer(value: Any, form: str) -> str:
    if type(value) is float and (math.isnan(value) or math.isinf(value)):
        return double_text(value).removeprefix("+").replace("Inf", "Infinity")
    if type(value) not in (int, Uint):
        raise _wrong("integer", "integers", value)
    return format(int(value), form or "d")


def _fixed(letter: str, precision: str, value: Any) -> str:
    digits = int(precision or 6) if len(precision) < 5 else _MAX_PRECISION + 1
    if digits > _MAX_PRECISION:
        raise EvaluationError("precision too large")
    if type(value) not in (float, int, Uint):
        raise _wrong("fixed-point" if letter == "f" else "scientific", "doubles", value)
    number = float(value)
    if math.isnan(number) or math.isinf(number):
        return "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"
    return f"{number:.{digits}{letter}}"


def _digits(letter: str, value: Any) -> str:
    if letter == "b" and type(value) is bool:
        return str(int(value))
    if letter in ("x", "X") and isinstance(value, str | bytes):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if letter == "X" else text
    return _integer(value, letter)
