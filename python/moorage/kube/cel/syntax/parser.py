"""Parses expressions (cel-spec, langdef.md) and expands macros."""

from __future__ import annotations

from ..cel_errors import CompileError, Problem
from ..cel_types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, CelType
from ..values import Uint
from .expressions import Call, Expression, Identifier, ListLiteral, Literal, MapLiteral, Select
from .lexer import RESERVED, Token, tokens
from .macros import expand

MAX_DEPTH = 250
TOO_DEEP = f"expression recursion limit exceeded: {MAX_DEPTH}"
_FIRST, _OPTIONAL = "'[', '{', '(', '.', '-', '!', ", "'?', "
_REST = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
_RELATIONS = frozenset(("<", "<=", ">", ">=", "==", "!=", "in"))
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
        found = self.ternary()
        self.depth -= 1
        return found

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
            return self.logical("&&", "_&&_") if mark == "||" else self.relation()

        operands = [operand()]
        at = -1
        while (token := self.take(mark)) is not None:
            at = token.at if at < 0 else at
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Call(at, function, None, operands)

    def relation(self) -> Expression:
        left = self.sum()
        levels = 0
        while (token := self.take(*_RELATIONS)) is not None:
            levels = self.deeper(levels, token)
            name = "@in" if token.value == "in" else f"_{token.value!s}_"
            left = Call(token.at, name, None, [left, self.sum()])
        return left

    def deeper(self, levels: int, token: Token) -> int:
        if self.depth + levels >= MAX_DEPTH:
            raise self.fail(token.at, TOO_DEEP)
        return levels + 1

    def sum(self) -> Expression:
        left = self.product()
        levels = 0
        while (token := self.take("+", "-")) is not None:
            levels = self.deeper(levels, token)
            left = Call(token.at, f"_{token.value!s}_", None, [left, self.product()])
        return left

    def product(self) -> Expression:
        left = self.unary()
        levels = 0
        while (token := self.take("*", "/", "%")) is not None:
            levels = self.deeper(levels, token)
            left = Call(token.at, f"_{token.value!s}_", None, [left, self.unary()])
        return left

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
        while (token := self.take(".", "[")) is not None:
            levels = self.deeper(levels, token)
            optional = self.take("?") is not None
            if token.value == "[":
                index = self.nested()
                self.expect("mark", "]")
                operand = Call(token.at, "_[?_]" if optional else "_[_]", None, [operand, index])
                continue
            if self.token.kind == "escaped":
                raise self.fail(self.token.at, "unsupported syntax: '`'")
            name = self.expect("name")
            opened = None if optional else self.take("(")
            if opened is not None:
                operand = self.call(opened, str(name.value), operand)
            else:
                if name.value == "in":
                    raise self.fail(name.at, "Syntax error: mismatched input 'in'")
                operand = Select(token.at, operand, str(name.value), is_optional=optional)
        return operand

    def call(self, opened: Token, function: str, target: Expression | None) -> Expression:
        arguments = [] if self.take(")") else self.items(")")
        call = Call(opened.at, function, target, arguments)
        return expand(call, self.text)

    def items(self, end: str) -> list[Expression]:
        found = [self.nested()]
        while self.take(end) is None:
            self.expect("mark", ",")
            found.append(self.nested())
        return found

    def primary(self) -> Expression:
        token = self.token
        if token.kind in _TYPES:
            self.next += 1
            value = Uint(int(token.value)) if token.kind == "uint" else token.value
            return Literal(token.at, value, _TYPES[token.kind])
        if self.take("(") is not None:
            found = self.nested()
            self.expect("mark", ")")
            return found
        if self.take("[") is not None:
            return self.list_literal(token.at)
        if self.take("{") is not None:
            return self.map_literal(token.at)
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

    def list_literal(self, at: int) -> Expression:
        elements: list[Expression] = []
        optional: set[int] = set()
        while self.take("]") is None:
            if elements:
                self.expect("mark", ",")
                if self.take("]") is not None:
                    break
            if self.take("?") is not None:
                optional.add(len(elements))
            elements.append(self.nested())
        return ListLiteral(at, elements, frozenset(optional))

    def map_literal(self, at: int) -> Expression:
        entries: list[tuple[Expression, Expression]] = []
        optional: set[int] = set()
        while self.take("}") is None:
            if entries:
                self.expect("mark", ",")
                if self.take("}") is not None:
                    break
            if self.take("?") is not None:
                optional.add(len(entries))
            key = self.nested()
            self.expect("mark", ":")
            entries.append((key, self.nested()))
        return MapLiteral(at, entries, frozenset(optional))
