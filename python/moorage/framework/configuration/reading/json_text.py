"""Reading JSON texts as Go does, with its words for what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .decoding import DecodeError, JsonNumber, JsonObject

_GO_WORDS = {
    "Expecting property name": "looking for beginning of object key string",
    "Expecting value": "looking for beginning of value",
    "Expecting ':'": "after object key",
    "Expecting ','": "after object key:value pair",
    "Extra data": "after top-level value",
}


def _refuse(name: str) -> Any:
    raise ValueError(f"invalid character {name[0]!r} looking for beginning of value")


# Both halves of a surrogate pair, one half alone, or another escape.
_ESCAPE = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[dD][89a-fA-F]\w\w|\\.")
_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_constant=_refuse)


def parse(text: str) -> Any:
    """The value of a whole text (json.Unmarshal); DecodeError where it is none."""
    return _parsed(_DECODER.decode, text, "unexpected end of JSON input")


def parse_first(text: str) -> Any:
    """The first value of a text, whatever follows (json.Decoder); DecodeError where it begins with none."""
    text = text.lstrip(" \t\r\n")
    return _parsed(_DECODER.raw_decode, text, "unexpected EOF" if text else "EOF", 0)[0]


def _parsed(decode: Callable[..., Any], text: str, at_end: str, *arguments: int) -> Any:
    # Half a surrogate pair is no character: encoding/json puts U+FFFD in its place.
    text = _ESCAPE.sub(lambda found: r"\ufffd" if len(found[0]) == 6 else found[0], text)
    try:
        return decode(text, *arguments)
    except (ValueError, RecursionError) as error:
        raise DecodeError(_syntax(error, at_end)) from None


def _syntax(error: Exception, at_end: str) -> str:
    """A syntax error of JSON in Go's words; where Go tells a list from a map, these speak of a map."""
    if isinstance(error, RecursionError):
        return "exceeded max depth"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return at_end
    where = next((words for start, words in _GO_WORDS.items() if error.msg.startswith(start)), "")
    return f"invalid character {error.doc[error.pos]!r} {where or error.msg}"
