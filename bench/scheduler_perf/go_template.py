"""Go templates (text/template): the subset that the files of scheduler_perf use.

Supported are fields of the dot, variables, pipelines with nested parentheses, functions, if, with, range over
lists, trim markers and comments. Not supported are template definitions, methods and break/continue.

The functions are those of Go and of scheduler_perf. Arithmetic is done in float64 for all types of arguments,
and the Int forms truncate towards zero (kubernetes v1.36, test/integration/scheduler_perf/create.go). ``div``
and ``mod`` are older spellings.
"""

from __future__ import annotations

import math
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from moorage.errors import InputError

# Possessive: alternatives start with different characters, so that backtracking is useless.
_ACTION = re.compile(
    r"\{\{(?P<left>-(?=\s))?"
    r"(?P<body>(?:\"(?:\\.|[^\"\\])*+\"|`[^`]*+`|(?>/\*.*?\*/)|(?!/\*|(?:(?<=\s)-)?\}\})[^\"`])*+)"
    r"(?P<right>-)?\}\}",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<string>\"(?:\\.|[^\"\\])*\"|`[^`]*`)"
    r"|(?P<field>(?:\$\w*)?(?:\.[A-Za-z_]\w*)+)|(?P<variable>\$\w*)|(?P<word>[A-Za-z_]\w*)|(?P<mark>:=|[=|().,]))"
)
_WORDS = {"true": True, "false": False, "nil": None}
_BLOCKS = ("if", "with", "range")


_Scope = ChainMap[str, Any]
"""Variables of a block and its enclosing blocks; ``.`` is the dot, ``$`` the template's arguments."""
_Value = Callable[[_Scope], Any]
_Part = Callable[[_Scope], str]


@dataclass(frozen=True, slots=True)
class GoTemplate:
    """A parsed template.

    Attributes
    ----------
    source : str
        Name of the file, for errors.
    fields : frozenset of str
        Names of the arguments that the template reads.
    """

    source: str
    fields: frozenset[str]
    _parts: tuple[_Part, ...]

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Execute the template.

        Parameters
        ----------
        arguments : mapping
            Value of the dot: arguments by name.

        Returns
        -------
        str
            The rendered text.

        Raises
        ------
        InputError
            A value is missing or has a type that a function does not accept; names the line.
        """
        scope: _Scope = ChainMap({".": dict(arguments), "$": dict(arguments)})
        return "".join([part(scope) for part in self._parts])


def parse(text: str, source: str) -> GoTemplate:
    """Parse a template.

    Parameters
    ----------
    source : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        The text is not a template or uses an unsupported feature; names the line.
    """
    parser = _Parser(text, source)
    parts = tuple(parser.parts(()))
    return GoTemplate(source, frozenset(parser.fields), parts)


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    """Split into text before an action, the action ("" at the end), and its line number."""
    start, line, trim = 0, 1, False
    while (at := text.find("{{", start)) >= 0:
        before = text[start:at]
        line += before.count("\n")
        match = _ACTION.match(text, at)
        if match is None:  # the action has no end; the rest of the text is ignored
            yield "", "{{", line
            return
        before = before.lstrip() if trim else before
        yield before.rstrip() if match["left"] else before, match["body"].strip(), line
        line += match[0].count("\n")
        start, trim = match.end(), bool(match["right"])
    yield text[start:].lstrip() if trim else text[start:], "", 0


def _constant(text: str) -> _Part:
    return lambda scope: text


class _Parser:
    """Parses blocks of parts; each part is a function from scope to text."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.fields: set[str] = set()
        self.pieces = _pieces(text)
        self.end = ""
        self.line = 0

    def error(self, message: object, line: int) -> InputError:
        return InputError(str(message), source=f"{self.source}:{line}")

    def parts(self, ends: tuple[str, ...]) -> Iterator[_Part]:
        """Parse up to one of the keywords `ends`, or to the end of the file; sets `end` to the action."""
        for before, action, line in self.pieces:
            if before:
                yield _constant(before)
            if not action and not line:
                if ends:
                    raise self.error(f"the block of line {self.line} has no end", self.line)
                break
            word = action.split(maxsplit=1)[0] if action else ""
            if word in ends:
                self.end = action
                break
            if not action.startswith("/*"):
                yield self._action(word, action, line)

    def block(self, ends: tuple[str, ...]) -> _Part:
        """Parse up to one of the keywords `ends`."""
        parts = list(self.parts(ends))
        return lambda scope: "".join([part(scope) for part in parts])

    def _action(self, word: str, action: str, line: int) -> _Part:
        if word in ("else", "end"):
            raise self.error(f"{word} without a block", line)
        if word in _BLOCKS:
            self.line = line
            return self._block(word, action[len(word) :], line)
        tokens = _Tokens(self, action, line)
        variable, assigned = tokens.declared()
        value = tokens.whole_pipeline()

        def run(scope: _Scope) -> str:
            result = value(scope)
            if assigned and variable not in scope:
                raise self.error(f"undefined variable {variable}", line)
            if variable:
                declaring = (block for block in scope.maps if variable in block)
                block = next(declaring) if assigned else scope.maps[0]
                block[variable] = result
                return ""
            if result is None:
                raise self.error(f"{{{{{action}}}}} has no value", line)
            return show(result)

        return run

    def _block(self, word: str, rest: str, line: int) -> _Part:
        tokens = _Tokens(self, rest, line)
        variables = tokens.ranged() if word == "range" else []
        condition = tokens.whole_pipeline()
        body = self.block(("else", "end"))
        otherwise = _constant("")
        if self.end != "end":
            after = self.end.removeprefix("else").strip()
            if after:  # else if: a nested block with the same end
                nested = after.split(maxsplit=1)[0]
                if nested not in ("if", "with"):
                    raise self.error(f"unexpected {nested} after else", line)
                otherwise = self._block(nested, after[len(nested) :], line)
            else:
                otherwise = self.block(("end",))
        self.end = "end"

        def run(scope: _Scope) -> str:
            value = condition(scope)
            if not value:
                return otherwise(scope)
            if word == "range" and type(value) is int:
                value = list(range(value))
            if word == "range" and not isinstance(value, list):
                raise self.error(f"range can't iterate over {show(value)}", line)
            dots = {"if": [scope["."]], "with": [value], "range": value}[word]
            return "".join([body(scope.new_child(_named(variables, *each))) for each in enumerate(dots)])

        return run


def _named(variables: list[str], index: int, dot: Any) -> dict[str, Any]:
    """Return the dot of a block with the variables that stand for the last of an item's index and itself."""
    return {".": dot} | dict(zip(variables[::-1], (dot, index), strict=False))


class _Tokens:
    """The tokens of one action, parsed as a pipeline."""

    def __init__(self, parser: _Parser, text: str, line: int) -> None:
        self.parser, self.line = parser, line
        self.items: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error(f"unexpected {text[at:].split()[0]!r}")
            self.items.append((match.lastgroup or "", match[match.lastgroup or 0]))
            at = match.end()
        self.at = 0

    def error(self, message: object) -> InputError:
        return self.parser.error(message, self.line)

    def peek(self) -> tuple[str, str]:
        return self.items[self.at] if self.at < len(self.items) else ("", "")

    def declared(self) -> tuple[str, bool]:
        """The variable that the action assigns to, or "", and whether it must exist."""
        if len(self.items) < 2 or self.items[1][1] not in (":=", "="):
            return "", False
        kind, name = self.items[0]
        if kind != "variable":
            raise self.error(f"cannot assign to {name}")
        self.at = 2
        return name, self.items[1][1] == "="

    def ranged(self) -> list[str]:
        """The variables before ``:=`` that a range sets: the item, or its index and the item."""
        marks = [text for _, text in self.items]
        for number in (1, 2):
            if marks[2 * number - 1 : 2 * number] == [":="]:
                self.at = 2 * number
                return marks[: 2 * number : 2]
        return []

    def whole_pipeline(self) -> _Value:
        value = self.pipeline()
        if self.at < len(self.items):
            raise self.error(f"unexpected {self.peek()[1]!r}")
        return value

    def pipeline(self) -> _Value:
        value = self.command(None)
        while self.peek()[1] == "|":
            self.at += 1
            value = self.command(value)
        return value

    def command(self, last: _Value | None) -> _Value:
        """Parse a function with its arguments, the last of them from the pipe, or a value."""
        kind, text = self.peek()
        if kind == "word" and text not in _WORDS:
            self.at += 1
            if text not in FUNCTIONS:
                raise self.error(f'function "{text}" not defined')
            arguments: list[_Value] = []
            while self.peek()[1] not in ("", "|", ")"):
                arguments.append(self.operand())
            if last is not None:
                arguments.append(last)
            return self._call(text, arguments)
        value = self.operand()
        if last is not None or self.peek()[1] not in ("", "|", ")"):
            raise self.error(f"{text} is not a function, and takes no argument")
        return value

    def _call(self, name: str, arguments: list[_Value]) -> _Value:
        def run(scope: _Scope) -> Any:
            try:
                return call(name, [argument(scope) for argument in arguments])
            except TemplateError as error:
                raise self.error(error) from None

        return run

    def operand(self) -> _Value:
        kind, text = self.peek()
        self.at += 1
        if kind == "word" and text in FUNCTIONS:
            return self._call(text, [])
        if kind == "word" and text not in _WORDS:
            raise self.error(f'function "{text}" not defined')
        if kind in ("number", "string", "word"):
            value = _literal(kind, text)
            return lambda scope: value
        if kind == "field":
            variable, *names = text.split(".")
            if variable in ("", "$"):
                self.parser.fields.add(names[0])
            return self._field(variable or ".", names)
        if kind == "variable" or text == ".":
            return self._field(text, [])
        if text == "(":
            inner = self.pipeline()
            if self.peek()[1] != ")":
                raise self.error("unclosed left parenthesis")
            self.at += 1
            return inner
        raise self.error(f"unexpected {text!r}" if text else "missing value")

    def _field(self, variable: str, names: list[str]) -> _Value:
        def run(scope: _Scope) -> Any:
            if variable not in scope:
                raise self.error(f"undefined variable {variable}")
            value = scope[variable]
            for name in names:
                if value is not None and not isinstance(value, dict):
                    raise self.error(f"{show(value)} has no field {name}")
                value = None if value is None else value.get(name)
            return value

        return run


def _literal(kind: str, text: str) -> Any:
    if kind == "word":
        return _WORDS[text]
    if kind == "number":
        return float(text) if re.search("[.eE]", text) else int(text)
    if text[0] == "`":
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text[1:-1])


# ---- functions ---------------------------------------------------------------------------------------------


class TemplateError(Exception):
    """An error in a template or its arguments; the caller adds file and line."""


def show(value: Any) -> str:
    """Format a value as Go does.

    Parameters
    ----------
    value : object
        A value of the template.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return str(value)


def _number(value: Any) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return float(value)
        except ValueError:
            pass
    raise TemplateError(f"{_quoted(value)} is not a number")


def _quoted(value: Any) -> str:
    return "nil" if value is None else f'"{value}"' if isinstance(value, str) else show(value)


def _int(value: float) -> int:
    if not math.isfinite(value):
        raise TemplateError(f"{value} is not an integer")
    return int(value)


def _of_numbers(function: Callable[..., float]) -> Callable[..., float]:
    """Convert a function of numbers to one of values that represent numbers."""
    return lambda *values: function(*map(_number, values))


def _sum(*numbers: float) -> float:
    return sum(numbers, 0.0)


def _product(*numbers: float) -> float:
    return math.prod(numbers, start=1.0)


def _mod(i: Any, j: Any) -> int:
    dividend, divisor = _int(_number(i)), _int(_number(j))
    if divisor == 0:
        raise ZeroDivisionError
    return int(math.fmod(dividend, divisor))


def _truncated(function: Callable[..., float]) -> Callable[..., int]:
    """Convert a function of numbers to one of values, with an integer result."""
    of_numbers = _of_numbers(function)
    return lambda *values: _int(of_numbers(*values))


def _and(first: Any, *others: Any) -> Any:
    return next((value for value in (first, *others) if not value), (first, *others)[-1])


def _or(first: Any, *others: Any) -> Any:
    return next((value for value in (first, *others) if value), (first, *others)[-1])


def _equal(first: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("missing argument")
    for other in others:
        _comparable(first, other)
    return first in others


def _comparable(i: Any, j: Any) -> None:
    if i is not None and j is not None and type(i) is not type(j):
        raise TemplateError(f"{_quoted(i)} and {_quoted(j)} have types that cannot be compared")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def function(i: Any, j: Any) -> bool:
        _comparable(i, j)
        if not isinstance(i, int | float | str) or isinstance(i, bool) or j is None:
            raise TemplateError(f"{_quoted(i)} has no order")
        return compare(i, j)

    return function


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise TemplateError(f"{_quoted(value)} has no length")
    return len(value.encode()) if isinstance(value, str) else len(value)


def _item(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and type(key) is int and 0 <= key < len(value):
            value = value[key]
        else:
            raise TemplateError(f"{_quoted(value)} has no item {_quoted(key)}")
    return value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "AddFloat": _of_numbers(_sum),
    "AddInt": _truncated(_sum),
    "SubtractFloat": _of_numbers(operator.sub),
    "SubtractInt": _truncated(operator.sub),
    "MultiplyFloat": _of_numbers(_product),
    "MultiplyInt": _truncated(_product),
    "DivideFloat": _of_numbers(operator.truediv),
    "DivideInt": _truncated(operator.truediv),
    "div": _truncated(operator.truediv),
    "Mod": _mod,
    "mod": _mod,
    "Int": _truncated(float),
    "JSON": _json,
    "and": _and,
    "or": _or,
    "not": operator.not_,
    "eq": _equal,
    "ne": lambda i, j: not _equal(i, j),
    "lt": _ordered(operator.lt),
    "le": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "ge": _ordered(operator.ge),
    "len": _length,
    "index": _item,
    "print": lambda *values: "".join(map(show, values)),
}


def call(name: str, arguments: list[Any]) -> Any:
    """Call a function of templates.

    Parameters
    ----------
    name : str
        Name of the function.
    arguments : list of object
        Its arguments.

    Raises
    ------
    TemplateError
        The number or the types of the arguments are wrong.
    """
    try:
        return FUNCTIONS[name](*arguments)
    except TemplateError as error:
        raise TemplateError(f"{name}: {error}") from None
    except ZeroDivisionError:
        raise TemplateError(f"{name}: division by zero") from None
    except (TypeError, OverflowError):
        raise TemplateError(f"{name}: wrong arguments ({len(arguments)})") from None
