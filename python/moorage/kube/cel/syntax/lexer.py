"""Splits an expression into tokens (cel-spec, langdef.md)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..cel_errors import CompileError, Problem

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[\t\n\f\r ]|//[^\n]*)+)
  | (?P<double>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?)|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<text>(?P<prefix>[bB]?)(?P<quoted>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
        |"(?:\\.|[^\\"\n\r])*"|'(?:\\.|[^\\'\n\r])*'))
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<escaped>`[a-zA-Z0-9_.\-/ ]+`)
  | (?P<mark>==|!=|<=|>=|&&|\|\||[-!?:.,+*/%<>()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(
    r"""[bB]?[rR](?:\"\"\"(?:.*?)\"\"\"|'''(?:.*?)'''|"[^"\n\r]*"|'[^'\n\r]*')""",
    re.DOTALL,
)
_MAX_DIGITS = 32
"""More significant digits than a number of 64 bits has in any base."""
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)
_SIMPLE = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


class Token(NamedTuple):
    """A token: its kind (``int``, ``string``, ``name``, ``mark``, ``end``, …), value and offset."""

    kind: str
    value: str | int | float | bytes
    at: int


def tokens(text: str) -> list[Token]:
    """Split an expression; the last token has the kind ``end``.

    Raises
    ------
    CompileError
        A character begins no token, or a literal is out of range.
    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        raw = _RAW.match(text, at)
        match = raw or _TOKEN.match(text, at)
        if match is None:
            shown = text[at]
            raise CompileError(text, [Problem(at, f"Syntax error: token recognition error at: '{shown}'")])
        if raw is not None:
            found.append(_raw_text(raw[0], at))
        elif match.lastgroup != "space" and match["space"] is None:
            found.append(_token(text, match, at))
        at = match.end()
    return [*found, Token("end", "<EOF>", len(text))]


def _token(text: str, match: re.Match[str], at: int) -> Token:
    if match["text"] is not None:
        return _text(text, match, at)
    if match["double"] is not None:
        return Token("double", float(match["double"]), at)
    for kind, bits in (("uint", 64), ("int", 64)):
        if (digits := match[kind]) is not None:
            base, significant = 16 if digits[:2] == "0x" else 10, digits.rstrip("uU").lstrip("0x")
            number = int(digits.rstrip("uU"), base) if len(significant) <= _MAX_DIGITS else 2**bits
            if number >= 2**bits:
                raise CompileError(text, [Problem(at, f"invalid {kind} literal")])
            return Token(kind, number, at)
    if match["escaped"] is not None:
        return Token("escaped", match["escaped"][1:-1], at)
    if match["name"] is not None:
        return Token("name", match["name"], at)
    return Token("mark", match[0], at)


def _raw_text(text: str, at: int) -> Token:
    prefix = text[: 2 if text[1] in "rRbB" else 1].lower()
    quoted = text[len(prefix) :]
    quotes = 3 if quoted[:3] in ('"""', "'''") else 1
    content = quoted[quotes:-quotes]
    return Token("bytes", content.encode(), at) if "b" in prefix else Token("string", content, at)


def _text(text: str, match: re.Match[str], at: int) -> Token:
    quoted = match["quoted"]
    quotes = 3 if quoted[:3] in ('"""', "'''") else 1
    content = quoted[quotes:-quotes]
    if "b" in match["prefix"].lower():
        return Token("bytes", _unescape_bytes(text, content, at), at)
    return Token("string", _ESCAPE.sub(lambda one: _character(text, one, at), content), at)


def _character(text: str, match: re.Match[str], at: int) -> str:
    simple, *numbers, octal, rest = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if octal is not None:
        return chr(int(octal, 8))
    code = next((int(number, 16) for number in numbers if number is not None), -1)
    if rest is not None or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CompileError(text, [Problem(at, "invalid string literal")])
    return chr(code)


def _unescape_bytes(text: str, content: str, at: int) -> bytes:
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(content):
        if match[3] is not None or match[4] is not None:
            raise CompileError(text, [Problem(at, "unable to unescape string")])
        parts.append(content[end : match.start()].encode())
        shown = _character(text, match, at)
        is_code = match[2] is not None or match[5] is not None
        parts.append(bytes([ord(shown)]) if is_code else shown.encode())
        end = match.end()
    return b"".join([*parts, content[end:].encode()])
