"""Functions of texts: the extension "strings" of cel-go, version 2."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from .cel_errors import EvaluationError, count_work
from .standard_functions import double_text, to_string
from .type_checker import Library, result_traversals_cost, traversal_cost, two_traversals_cost
from .values import (
    DYN,
    INT,
    INT_MAX,
    STRING,
    CelType,
    Duration,
    MapValue,
    Timestamp,
    Uint,
    list_of,
    size_of,
    text_of_key,
    type_of_value,
)

# ---- string format -----------------------------------------------------------------------------------------
#
# The function ``format`` of texts: cel-go, ext/formatting.go, in the locale en_US.

Show = Callable[[str, int, int], str]
"""Returns what a clause shows, from its letter, its precision and the index of its argument."""

DEFAULT_PRECISION = 6
_NUMBER = re.compile(r"\.([0-9]*)", re.ASCII)
_PARSING = "could not parse formatting clause: "
_PRECISION = f"{_PARSING}error while parsing precision: "
_ALLOWED = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
}
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_RAISED = str.maketrans("+-0123456789", "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ESCAPES = dict(zip('\a\b\f\n\r\t\v\\"', (*"abfnrtv", "\\", '"'), strict=True))
_ESCAPED = str.maketrans({character: f"\\{letter}" for character, letter in _ESCAPES.items()})


def wrong_argument(letter: str, name: str) -> str:
    """Return the error of a clause whose argument has a type that it cannot show."""
    return f"error during formatting: {_ALLOWED[letter]}, was given {name}"


def fill_in(template: str, given: int, show: Show, *, is_check: bool = False) -> tuple[str, int]:
    """Replace the clauses of a template.

    Parameters
    ----------
    show : callable
        Called for each clause.
    is_check : bool
        Whether this is the check before an evaluation, which notices the end of a template first.

    Raises
    ------
    EvaluationError
        A clause is unknown or has no argument.
    """
    parts: list[str] = []
    at = used = 0
    while (percent := template.find("%", at)) >= 0:
        parts.append(template[at:percent])
        at = percent + 1
        if template.startswith("%", at):
            parts.append("%")
            at += 1
            continue
        ends = at == len(template)
        if used >= given and not (ends and is_check):
            raise EvaluationError(f"index {used} out of range")
        if ends:
            raise EvaluationError("unexpected end of string")
        precision, at = _precision(template, at)
        letter = template[at]
        if letter not in _ALLOWED:
            first_byte = chr(letter.encode()[0])
            raise EvaluationError(f'{_PARSING}unrecognized formatting clause "{first_byte}"')
        parts.append(show(letter, precision, used))
        used, at = used + 1, at + 1
    return "".join([*parts, template[at:]]), used


def _precision(template: str, at: int) -> tuple[int, int]:
    """The precision of a clause, and where its letter is."""
    match = _NUMBER.match(template, at)
    if match is None:
        return DEFAULT_PRECISION, at
    if match.end() == len(template):
        raise EvaluationError(f"{_PRECISION}could not find end of precision specifier")
    digits = match[1]
    why = "" if digits else "invalid syntax"
    if len(digits.lstrip("0")) > len(str(INT_MAX)) or int(digits[-20:] or 0) > INT_MAX:
        why = "value out of range"
    if why:
        text = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": {why}'
        raise EvaluationError(f"{_PRECISION}{text}")
    return int(digits), match.end()


def format_text(template: str, arguments: tuple[Any, ...]) -> str:
    """Fill in a template such as ``"%s-%d"``.

    Parameters
    ----------
    arguments : tuple
        One value for each clause.

    Raises
    ------
    EvaluationError
        A clause is unknown, has no value, or one of another type.
    """

    def show(letter: str, precision: int, at: int) -> str:
        text = _clause(letter, precision, arguments[at])
        count_work(len(text))
        return text

    return fill_in(template, len(arguments), show)[0]


def _clause(letter: str, precision: int, value: Any) -> str:
    if letter == "s":
        return _shown(value)
    if letter in ("f", "e"):
        return _real(letter, precision, value)
    if letter == "b" and type(value) is bool:
        return str(int(value))
    if letter in ("x", "X") and isinstance(value, str | bytes):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if letter == "X" else text
    if type(value) in (int, Uint):
        return format(int(value), letter)
    raise EvaluationError(wrong_argument(letter, type_of_value(value).name))


def _shown(value: Any) -> str:
    """A value as ``%s`` shows it."""
    count_work(size_of(value))
    if isinstance(value, tuple | MapValue):
        return _literal(value)
    text = _text(value)
    if text is None:
        raise EvaluationError(wrong_argument("s", type_of_value(value).name))
    return text


def _text(value: Any) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, CelType):
        return value.name
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            why = '"invalid UTF-8 in bytes, cannot convert to string" to string'
            text = f"error during formatting: could not convert argument {why}"
            raise EvaluationError(text) from None
    if isinstance(value, str | bool | int | float | Timestamp | Duration):
        return to_string(value)
    return None


def _literal(value: Any) -> str:
    """An element of a list or map, as it is written in CEL."""
    count_work(size_of(value))
    if isinstance(value, tuple):
        return f"[{', '.join([_literal(element) for element in value])}]"
    if isinstance(value, MapValue):
        literals = [(_literal_key(key), _literal(item)) for key, item in value.items()]
        entries = sorted(literals, key=itemgetter(0))
        return f"{{{', '.join([f'{key}:{item}' for key, item in entries])}}}"
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else f'"{double_text(value)}"'
    text = _text(value)
    if text is None:
        name = type_of_value(value).name
        raise EvaluationError(f"error during formatting: no formatting function for {name}")
    if isinstance(value, str | bytes):
        return f"{'b' * isinstance(value, bytes)}{quoted(text)}"
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({quoted(text)})"
    return text


def _literal_key(key: Any) -> str:
    if isinstance(key, str):
        return quoted(key)
    if isinstance(key, int):
        return text_of_key(key)
    name = type_of_value(key).name
    raise EvaluationError(f"error during formatting: no formatting function for map key of type {name}")


def quoted(text: str) -> str:
    """Return a text in double quotes, as Go's ``strconv.Quote`` does."""
    characters = [each if each.isprintable() and each not in _ESCAPES else _escaped(each) for each in text]
    return f'"{"".join(characters)}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    code = ord(character)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _real(letter: str, precision: int, value: Any) -> str:
    """A double as ``%f`` and ``%e`` show it: of ``%e``, what stands for the precision is the width."""
    if type(value) is not float and not (isinstance(value, str) and value in _NO_NUMBERS):
        raise EvaluationError(wrong_argument(letter, type_of_value(value).name))
    number = float(value)
    if not math.isfinite(number):
        text = "NaN" if math.isnan(number) else f"{'-' * (number < 0)}∞"
    elif letter == "f":
        text = _fixed(number, precision)
    else:
        mantissa, _, exponent = f"{number or 0.0:.6e}".partition("e")
        text = f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_RAISED)}"
    return text.rjust(precision % (1 << 16)) if letter == "e" else text


def _fixed(number: float, precision: int) -> str:
    """Digits after the point: as many as upstream's fields of 8 and 16 bits hold of the precision."""
    least, most = precision % (1 << 8), (precision + (1 << 15)) % (1 << 16) - (1 << 15)
    text = f"{number or 0.0:,.{most}f}" if most >= 0 else f"{number or 0.0:,}"
    whole, _, digits = text.partition(".")
    digits = digits[:least] + digits[least:].rstrip("0")
    return f"{whole}.{digits.ljust(least, '0')}".removesuffix(".")


# ---- string functions --------------------------------------------------------------------------------------

_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACES += "\u2028\u2029\u202f\u205f\u3000"

TEXTS = list_of(STRING)


def add_string_functions(library: Library) -> None:
    """Add the overloads of this module."""
    member = library.member
    member("charAt", [STRING, INT], STRING, _char_at)
    member("indexOf", [STRING, STRING], INT, lambda a, b: a.find(b), traversal_cost)
    member("indexOf", [STRING, STRING, INT], INT, _index_of, traversal_cost)
    member("lastIndexOf", [STRING, STRING], INT, lambda a, b: a.rfind(b), traversal_cost)
    member("lastIndexOf", [STRING, STRING, INT], INT, _last_index_of, traversal_cost)
    member("lowerAscii", [STRING], STRING, lambda a: a.translate(_LOWER), traversal_cost)
    member("upperAscii", [STRING], STRING, lambda a: a.translate(_UPPER), traversal_cost)
    member("replace", [STRING, STRING, STRING], STRING, _replace, two_traversals_cost)
    member("replace", [STRING, STRING, STRING, INT], STRING, _replace, two_traversals_cost)
    member("split", [STRING, STRING], TEXTS, lambda a, b: _split(a, b, -1), two_traversals_cost)
    member("split", [STRING, STRING, INT], TEXTS, _split, two_traversals_cost)
    member("substring", [STRING, INT], STRING, _substring, traversal_cost)
    member("substring", [STRING, INT, INT], STRING, _substring, traversal_cost)
    member("trim", [STRING], STRING, lambda a: a.strip(_SPACES), traversal_cost)
    member("join", [TEXTS], STRING, _join, result_traversals_cost)
    member("join", [TEXTS, STRING], STRING, _join, result_traversals_cost)
    member("format", [STRING, list_of(DYN)], STRING, format_text, traversal_cost)
    library.function("strings.quote", [STRING], STRING, quote, traversal_cost)


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
    return f'"{text.translate(_ESCAPED)}"'
