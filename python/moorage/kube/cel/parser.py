"""Text of an expression to its tree: tokens, parser, macros (cel-spec, langdef.md; cel-go, ext/)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from moorage.lazy import NamedTuple

from .cel_errors import CompileError, Problem
from .values import BOOL, BYTES, DOUBLE, DYN, INT, NULL, STRING, UINT, CelType, Uint

# ---- lexer -------------------------------------------------------------------------------------------------
#
# Splits an expression into tokens (cel-spec, langdef.md).

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
    read: list[Token] = []
    at = 0
    while at < len(text):
        raw = _RAW.match(text, at)
        match = raw or _TOKEN.match(text, at)
        if match is None:
            shown = text[at]
            raise CompileError(text, [Problem(at, f"Syntax error: token recognition error at: '{shown}'")])
        if raw is not None:
            prefix = raw[0][: 2 if raw[0][1] in "rRbB" else 1].lower()
            quoted = raw[0][len(prefix) :]
            quotes = 3 if quoted[:3] in ('"""', "'''") else 1
            content = quoted[quotes:-quotes]
            is_bytes = "b" in prefix
            read.append(
                Token("bytes" if is_bytes else "string", content.encode() if is_bytes else content, at)
            )
        elif match.lastgroup != "space" and match["space"] is None:
            read.append(_token(text, match, at))
        at = match.end()
    return [*read, Token("end", "<EOF>", len(text))]


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


def _text(text: str, match: re.Match[str], at: int) -> Token:
    quoted = match["quoted"]
    quotes = 3 if quoted[:3] in ('"""', "'''") else 1
    content = quoted[quotes:-quotes]
    if "b" in match["prefix"].lower():
        return Token("bytes", _unescape_bytes(text, content, at), at)
    return Token("string", _ESCAPE.sub(lambda escape: _character(text, escape, at), content), at)


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


# ---- expressions -------------------------------------------------------------------------------------------
#
# The syntax tree of an expression.


@dataclass(slots=True, eq=False)
class Expression:
    """A node of the tree.

    Attributes
    ----------
    at : int
        Offset in the text that errors show.
    type : CelType
        Set by the type checker.
    """

    at: int
    type: CelType = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expression):
    """A constant."""

    value: Any
    literal_type: CelType


@dataclass(slots=True, eq=False)
class Identifier(Expression):
    """A variable or the name of a type; the type checker sets `is_type`."""

    name: str
    is_type: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class Select(Expression):
    """A field of a value: ``a.b``, ``has(a.b)`` with `tests_presence`, ``a.?b`` with `is_optional`.

    Or the name of a type; the type checker sets `type_name`.
    """

    operand: Expression
    name: str
    tests_presence: bool = False
    is_optional: bool = False
    type_name: str = field(default="", init=False)


@dataclass(slots=True, eq=False)
class Call(Expression):
    """The call of a function or operator.

    Attributes
    ----------
    overloads : list
        Those whose parameters the arguments fit; set by the type checker.
    """

    function: str
    target: Expression | None
    arguments: list[Expression]
    overloads: list[Any] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class ListLiteral(Expression):
    """``[a, ?b]``; `optional` has the indices of optional elements."""

    elements: list[Expression]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapLiteral(Expression):
    """``{k: v, ?l: w}``; `optional` has the indices of optional entries."""

    entries: list[tuple[Expression, Expression]]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class StructLiteral(Expression):
    """``Name{field: v, ?other: w}``; `optional` has the indices of optional fields."""

    name: str
    fields: list[tuple[str, Expression]]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Comprehension(Expression):
    """A fold over a list or map, to which macros expand.

    `second` is the name of a second variable, or "": then lists give their elements and maps their keys, else
    lists give index and element and maps key and value.
    """

    variable: str
    second: str
    range: Expression
    accumulator: str
    start: Expression
    condition: Expression
    step: Expression
    result: Expression


def qualified(node: Expression) -> str | None:
    """Return the dotted name of an expression, or None if it is no chain of names."""
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Select) and not node.tests_presence and not node.is_optional:
        prefix = qualified(node.operand)
        return None if prefix is None else f"{prefix}.{node.name}"
    return None


# ---- macros ------------------------------------------------------------------------------------------------
#
# Macros: calls that stand for larger expressions (cel-spec, langdef.md; cel-go, ext/).

RESULT = "@result"
UNUSED = "#unused"
INPUT = "@__sortBy_input__"


def expand(call: Call, text: str) -> Expression:
    """Expand a call if it is one of a macro.

    Parameters
    ----------
    text : str
        The whole expression, for errors.

    Returns
    -------
    Expression
        `call` itself if it is of no macro.

    Raises
    ------
    CompileError
        The arguments are not what the macro needs.
    """
    if call.target is None:
        return _has(call, text) if call.function == "has" and len(call.arguments) == 1 else call
    if isinstance(call.target, Identifier) and call.target.name == "cel":
        if call.function == "bind" and len(call.arguments) == 3:
            return _bound(call.at, _variable(call.arguments[0], text), *call.arguments[1:])
        return call
    macro = _MACROS.get((call.function, len(call.arguments)))
    if macro is None:
        return call
    variables = 2 if (call.function, len(call.arguments)) in _TWO_VARIABLES else 1
    names = [_variable(call.arguments[at], text) for at in range(variables)]
    if variables == 2 and names[0] == names[1]:
        raise CompileError(text, [Problem(call.arguments[1].at, f"duplicate variable name: {names[0]}")])
    return macro(call, names, call.arguments[variables:])


def _variable(argument: Expression, text: str) -> str:
    if not isinstance(argument, Identifier):
        raise CompileError(text, [Problem(argument.at, "argument must be a simple name")])
    return argument.name


def _has(call: Call, text: str) -> Expression:
    (argument,) = call.arguments
    if not isinstance(argument, Select) or argument.is_optional:
        raise CompileError(text, [Problem(argument.at, "invalid argument to has() macro")])
    return Select(call.at, argument.operand, argument.name, tests_presence=True)


def _bound(at: int, name: str, value: Expression, result: Expression) -> Expression:
    """`result` with a variable of this value."""
    never = Literal(at, False, BOOL)
    return Comprehension(
        at, UNUSED, "", ListLiteral(at, []), name, value, never, Identifier(at, name), result
    )


def _call(at: int, function: str, *arguments: Expression, target: Expression | None = None) -> Call:
    return Call(at, function, target, list(arguments))


def _result(at: int) -> Expression:
    return Identifier(at, RESULT)


def _fold(
    call: Call, names: list[str], start: Expression, step: Expression, **parts: Expression
) -> Expression:
    assert call.target is not None
    at = call.at
    return Comprehension(
        at,
        names[0],
        names[1] if len(names) > 1 else "",
        call.target,
        RESULT,
        start,
        parts.get("condition", Literal(at, True, BOOL)),
        step,
        parts.get("result", _result(at)),
    )


def _all(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    return _fold(
        call,
        names,
        Literal(at, True, BOOL),
        _call(at, "_&&_", _result(at), rest[0]),
        condition=_call(at, "@not_strictly_false", _result(at)),
    )


def _exists(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    return _fold(
        call,
        names,
        Literal(at, False, BOOL),
        _call(at, "_||_", _result(at), rest[0]),
        condition=_call(at, "@not_strictly_false", _call(at, "!_", _result(at))),
    )


def _exists_one(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    literal = Literal(at, 1, INT)
    step = _call(at, "_?_:_", rest[0], _call(at, "_+_", _result(at), literal), _result(at))
    start = Literal(at, 0, INT)
    return _fold(call, names, start, step, result=_call(at, "_==_", _result(at), Literal(at, 1, INT)))


def _collect(
    call: Call, names: list[str], rest: list[Expression], start: Expression, step: Expression
) -> Expression:
    """A fold whose step is for all items; of two arguments, the first one selects them."""
    if len(rest) == 2:
        step = _call(call.at, "_?_:_", rest[0], step, _result(call.at))
    return _fold(call, names, start, step)


def _map(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    appended = _call(call.at, "_+_", _result(call.at), ListLiteral(call.at, [rest[-1]]))
    return _collect(call, names, rest, ListLiteral(call.at, []), appended)


def _filter(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    return _map(call, names, [*rest, Identifier(call.at, names[0])])


def _transform_map(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    step = _call(at, "cel.@mapInsert", _result(at), Identifier(at, names[0]), rest[-1])
    return _collect(call, names, rest, MapLiteral(at, []), step)


def _transform_entries(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    step = _call(call.at, "cel.@mapInsert", _result(call.at), rest[-1])
    return _collect(call, names, rest, MapLiteral(call.at, []), step)


def _of_optional(call: Call, names: list[str], rest: list[Expression], *, wraps: bool) -> Expression:
    at, target = call.at, call.target
    there = _bound(at, names[0], _call(at, "value", target=target), rest[0])
    if wraps:
        there = _call(at, "optional.of", there)
    return _call(at, "_?_:_", _call(at, "hasValue", target=target), there, _call(at, "optional.none"))


def _sort_by(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    assert call.target is not None
    values = Identifier(at, INPUT)
    keys = _map(_call(at, "map", target=values), names, rest)
    return _bound(at, INPUT, call.target, _call(at, "@sortByAssociatedKeys", keys, target=values))


Macro = Callable[[Call, list[str], list[Expression]], Expression]
_TWO_VARIABLES: dict[tuple[str, int], Macro] = {
    ("all", 3): _all,
    ("exists", 3): _exists,
    ("existsOne", 3): _exists_one,
    ("exists_one", 3): _exists_one,
    ("transformList", 3): _map,
    ("transformList", 4): _map,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entries,
    ("transformMapEntry", 4): _transform_entries,
}
_MACROS: dict[tuple[str, int], Macro] = {
    ("all", 2): _all,
    ("exists", 2): _exists,
    ("exists_one", 2): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): partial(_of_optional, wraps=True),
    ("optFlatMap", 2): partial(_of_optional, wraps=False),
    **_TWO_VARIABLES,
}


# ---- parser ------------------------------------------------------------------------------------------------

MAX_DEPTH = 250
TOO_DEEP = f"expression recursion limit exceeded: {MAX_DEPTH}"
_FIRST, _OPTIONAL = "'[', '{', '(', '.', '-', '!', ", "'?', "
_REST = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
_OPERATORS = (("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
"""Those that bind more come later."""
_LITERALS: dict[str, tuple[object, CelType]] = {
    "true": (True, BOOL),
    "false": (False, BOOL),
    "null": (None, NULL),
}
_TYPES = {"int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES}


def parse(text: str) -> Expression:
    """Parse an expression.

    Raises
    ------
    CompileError
        The text is no expression, or nested more than 250 levels deep.
    """
    parser = _Parser(text)
    expression = parser.ternary()
    parser.expect("end")
    return expression


Entry = TypeVar("Entry")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.next = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def fail(self, at: int, message: str) -> CompileError:
        return CompileError(self.text, [Problem(at, message)])

    def unexpected(self, expected: str = "") -> CompileError:
        token = self.token
        end = token.at if token.kind == "end" else self.tokens[self.next + 1].at
        shown = "<EOF>" if token.kind == "end" else self.text[token.at : end].rstrip()
        return self.fail(token.at, f"Syntax error: mismatched input '{shown}'{expected}")

    def take(self, *marks: str) -> Token | None:
        """The next token if it is one of these marks, or None."""
        token = self.token
        if token.kind in ("mark", "name") and token.value in marks:
            self.next += 1
            return token
        return None

    def expect(self, kind: str, mark: str = "") -> Token:
        token = self.token
        if token.kind != kind or (mark and token.value != mark):
            raise self.unexpected()
        self.next += 1
        return token

    def nested(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(self.token.at, TOO_DEEP)
        node = self.ternary()
        self.depth -= 1
        return node

    def ternary(self) -> Expression:
        condition = self.logical("||", "_||_")
        mark = self.take("?")
        if mark is None:
            return condition
        then = self.logical("||", "_||_")
        self.expect("mark", ":")
        return Call(mark.at, "_?_:_", None, [condition, then, self.nested()])

    def logical(self, mark: str, function: str) -> Expression:
        """Operands of ``||`` or ``&&``, as one call of all of them."""

        def operand() -> Expression:
            return self.logical("&&", "_&&_") if mark == "||" else self.operation()

        operands = [operand()]
        at = -1
        while (token := self.take(mark)) is not None:
            at = token.at if at < 0 else at
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Call(at, function, None, operands)

    def operation(self, least: int = 0) -> Expression:
        """Operands with operators between them, of all that bind no less than those at an index."""
        left, levels, before = self.unary(), 0, -1
        while (token := self.take(*chain(*_OPERATORS[least:]))) is not None:
            binds = next(at for at, operators in enumerate(_OPERATORS) if token.value in operators)
            levels = self.deeper(levels if binds == before else 0, token)
            before, name = binds, "@in" if token.value == "in" else f"_{token.value!s}_"
            left = Call(token.at, name, None, [left, self.operation(binds + 1)])
        return left

    def deeper(self, levels: int, token: Token) -> int:
        if self.depth + levels >= MAX_DEPTH:
            raise self.fail(token.at, TOO_DEEP)
        return levels + 1

    def unary(self) -> Expression:
        first = self.token
        count, mark = 0, None
        while (token := self.take("!", "-")) is not None:
            if mark is not None and token.value != mark:
                raise self.fail(token.at, f"Syntax error: extraneous input '{token.value!s}'")
            mark, count = str(token.value), count + 1
        if mark == "-" and count % 2 and self.token.kind in ("int", "double"):
            return self.members(self.negative(first.at))
        if self.token.kind == "int" and int(self.token.value) >= 2**63:
            raise self.fail(self.token.at, "invalid int literal")
        operand = self.members(self.primary())
        if count % 2 == 0:
            return operand
        return Call(first.at, "!_" if mark == "!" else "-_", None, [operand])

    def negative(self, at: int) -> Expression:
        token = self.token
        self.next += 1
        assert isinstance(token.value, int | float)
        if token.kind == "int" and token.value > 2**63:
            raise self.fail(at, "invalid int literal")
        return Literal(at, -token.value, _TYPES[token.kind])

    def members(self, operand: Expression) -> Expression:
        levels = 0
        while (token := self.take(".", "[", "{")) is not None:
            levels = self.deeper(levels, token)
            if token.value == "{":
                name = qualified(operand)
                if name is None:
                    self.next -= 1
                    raise self.unexpected()
                operand = StructLiteral(token.at, name, *self.entries("}", self.named_field))
                continue
            optional = self.take("?") is not None
            if token.value == "[":
                index = self.nested()
                self.expect("mark", "]")
                operand = Call(token.at, "_[?_]" if optional else "_[_]", None, [operand, index])
                continue
            if self.token.kind == "escaped":
                raise self.fail(self.token.at, "unsupported syntax: '`'")
            selected = self.expect("name")
            opened = None if optional else self.take("(")
            if opened is not None:
                operand = self.call(opened, str(selected.value), operand)
            else:
                if selected.value == "in":
                    raise self.fail(selected.at, "Syntax error: mismatched input 'in'")
                operand = Select(token.at, operand, str(selected.value), is_optional=optional)
        return operand

    def call(self, opened: Token, function: str, target: Expression | None) -> Expression:
        arguments = [] if self.take(")") else self.items(")")
        call = Call(opened.at, function, target, arguments)
        return expand(call, self.text)

    def items(self, end: str) -> list[Expression]:
        nodes = [self.nested()]
        while self.take(end) is None:
            self.expect("mark", ",")
            nodes.append(self.nested())
        return nodes

    def primary(self) -> Expression:
        token = self.token
        if token.kind in _TYPES:
            self.next += 1
            value = Uint(int(token.value)) if token.kind == "uint" else token.value
            return Literal(token.at, value, _TYPES[token.kind])
        if self.take("(") is not None:
            node = self.nested()
            self.expect("mark", ")")
            return node
        if self.take("[") is not None:
            return ListLiteral(token.at, *self.entries("]", self.nested))
        if self.take("{") is not None:
            return MapLiteral(token.at, *self.entries("}", self.pair))
        is_global = self.take(".") is not None
        token = self.token
        if token.kind != "name" or token.value == "in":
            opened = self.next > 0 and self.tokens[self.next - 1].value == "["
            raise self.unexpected(f" expecting {{{_FIRST}{_OPTIONAL if opened else ''}{_REST}}}")
        self.next += 1
        return self.named(token, is_global)

    def named(self, token: Token, is_global: bool) -> Expression:
        name = str(token.value)
        if name in _LITERALS and not is_global:
            return Literal(token.at, *_LITERALS[name])
        if name in RESERVED:
            raise self.fail(token.at, f"reserved identifier: {name}")
        opened = self.take("(")
        if opened is not None:
            return self.call(opened, name, None)
        return Identifier(token.at, name)

    def entries(self, end: str, entry: Callable[[], Entry]) -> tuple[list[Entry], frozenset[int]]:
        """The entries of a literal up to its end, and which of them are optional."""
        entries: list[Entry] = []
        optional: set[int] = set()
        while self.take(end) is None:
            if entries:
                self.expect("mark", ",")
                if self.take(end) is not None:
                    break
            if self.take("?") is not None:
                optional.add(len(entries))
            entries.append(entry())
        return entries, frozenset(optional)

    def named_field(self) -> tuple[str, Expression]:
        token = self.expect("escaped" if self.token.kind == "escaped" else "name")
        self.expect("mark", ":")
        return str(token.value), self.nested()

    def pair(self) -> tuple[Expression, Expression]:
        key = self.nested()
        self.expect("mark", ":")
        return key, self.nested()
