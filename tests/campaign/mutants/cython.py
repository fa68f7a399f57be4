"""The mutants of a Cython module.

They are found by its tokens, as Cython has no parser for others to use: conditions, comparisons, returned
values, and statements that call, assign to a place or leave a loop.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from keyword import iskeyword
from tokenize import COMMENT, DEDENT, INDENT, NAME, NEWLINE, NL, NUMBER, OP, TokenInfo

from tests.campaign.mutants.mutant import Mutant, offsets

BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
ASSIGNED = re.compile(r"=|(\+|-|\*|/|//|\||&|\^|<<|>>)=")
RETURNED = {"True": "False", "False": "True", "0": "1", "1": "0"}
WORDS = {"if", "elif", "while", "and", "or", "not", "in", "return", "is", "else"}
BEFORE = {"if", "elif", "while", "and", "or", "not", "(", "=", "return"}
AFTER = {"and", "or", ")", ":", "else", "if"}


def statements(text: str) -> Iterator[list[TokenInfo]]:
    """The tokens of each logical line within a function."""
    depth, functions, line = 0, list[int](), list[TokenInfo]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == INDENT:
            depth += 1
        elif token.type == DEDENT:
            depth -= 1
            functions = [one for one in functions if one <= depth]
        elif token.type == NEWLINE:
            if functions:
                yield line
            words = {one.string for one in line}
            if (
                line[-1].string == ":"
                and line[0].string in {"def", "cdef", "cpdef"}
                and not words & {"class", "extern"}
            ):
                functions.append(depth + 1)
            line = []
        elif token.type not in {COMMENT, NL}:
            line.append(token)


def of_cython(file: str, text: str) -> Iterator[Mutant]:
    """The mutants of a Cython module."""
    starts = offsets(text)
    lines = text.splitlines()
    data = text.encode()

    def place(at: tuple[int, int]) -> int:
        return starts[at[0] - 1] + len(lines[at[0] - 1][: at[1]].encode())

    def mutant(first: TokenInfo, last: TokenInfo, new: str) -> Mutant:
        start, end = place(first.start), place(last.end)
        old = data[start:end].decode()
        return Mutant(file, first.start[0], start, end, old, new or f"not ({old})")

    for line in statements(text):
        head, words = line[0].string, {one.string for one in line}
        if head in {"if", "elif", "while"} and (colon := colon_of(line)) > 1 and not line[1].string.isupper():
            yield mutant(line[1], line[colon - 1], "")
        elif head == "return" and len(line) == 2 and line[1].string in RETURNED:
            yield mutant(line[1], line[1], RETURNED[line[1].string])
        elif head in {"continue", "break"} and len(line) == 1:
            yield mutant(line[0], line[0], "pass")
        elif changes_state(line):
            yield mutant(line[0], line[-1], "pass")
        if head in {"cdef", "cpdef", "def", "class"} and "=" not in words:
            continue
        for at, token in enumerate(line):
            if token.string in BOUNDS and (extent := compared(line, at)):
                left, right = extent
                before, after = line[at - 1], line[at + 1]
                start, end = place(line[left].start), place(line[right].end)
                old = data[start:end].decode()
                sides = data[start : place(before.end)], data[place(after.start) : end]
                new = f" {BOUNDS[token.string]} ".join(side.decode() for side in sides)
                yield Mutant(file, line[left].start[0], start, end, old, new)


def compared(line: list[TokenInfo], at: int) -> tuple[int, int] | None:
    """The first and the last token of a comparison of two names, numbers, attributes, items or calls."""
    left, right = at - 1, at + 1
    while left > 0 and (line[left].string in {")", "]"} or line[left - 1].string == "."):
        left = opening(line, left) - 1 if line[left].string in {")", "]"} else left - 2
    while right + 1 < len(line) and line[right + 1].string in {".", "(", "["}:
        right = right + 2 if line[right + 1].string == "." else closing(line, right + 1)
    ends = left, right
    if left < 1 or right + 1 >= len(line) or any(line[end].type not in {NAME, NUMBER, OP} for end in ends):
        return None
    operands = line[left].string not in WORDS and line[at + 1].type in {NAME, NUMBER}
    bounded = line[left - 1].string in BEFORE and line[right + 1].string in AFTER
    return ends if operands and bounded and line[left].type in {NAME, NUMBER} else None


def opening(line: list[TokenInfo], at: int) -> int:
    """The position of the bracket that the one at a position closes."""
    depth = 0
    for before in range(at, -1, -1):
        depth += (line[before].string in {")", "]", "}"}) - (line[before].string in {"(", "[", "{"})
        if depth == 0:
            return before
    return 0


def closing(line: list[TokenInfo], at: int) -> int:
    """The position of the bracket that closes the one at a position."""
    depth = 0
    for after in range(at, len(line)):
        depth += (line[after].string in {"(", "[", "{"}) - (line[after].string in {")", "]", "}"})
        if depth == 0:
            return after
    return at


def colon_of(line: list[TokenInfo]) -> int:
    """The position of the colon that ends a condition."""
    depth = 0
    for at, token in enumerate(line):
        depth += (token.string in {"(", "[", "{"}) - (token.string in {")", "]", "}"})
        if token.string == ":" and depth == 0:
            return at
    return 0


def changes_state(line: list[TokenInfo]) -> bool:
    """Whether a statement only calls, or assigns to an attribute or an item."""
    if line[0].type != NAME or iskeyword(line[0].string) or line[0].string in {"cdef", "cpdef"}:
        return False
    depth = 0
    for at, token in enumerate(line):
        depth += (token.string in {"(", "[", "{"}) - (token.string in {")", "]", "}"})
        if depth == 0 and token.string in {":", ","}:  # a declared type, or several targets
            return False
        if depth == 0 and token.type == OP and ASSIGNED.fullmatch(token.string):
            return at > 1 or token.string != "="
    return line[-1].string == ")"
