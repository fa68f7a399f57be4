"""What ends an expression: errors of compiling and of evaluating it, and the limit of its work."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from threading import local

from moorage.lazy import NamedTuple

# Below characters outside ASCII, which terminals often show in two columns.
WIDE_DOT, WIDE_MARK = "\uff0e", "\uff3e"


class Problem(NamedTuple):
    """What is wrong at a character of an expression."""

    at: int
    message: str


class CompileError(Exception):
    """An expression cannot be compiled; the message has all problems, as cel-go prints them."""

    def __init__(self, text: str, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems, key=attrgetter("at"))
        shown = [_shown(text, problem) for problem in self.problems]
        super().__init__("compilation failed: " + "\n".join(shown))


class ResultTypeError(CompileError):
    """The result of an expression is of another type than bool."""

    def __init__(self, type_name: str) -> None:
        Exception.__init__(self, f"must evaluate to bool or the unknown type, not {type_name}")
        self.problems = []


class ProgramError(CompileError):
    """A conversion or pattern of constants fails, which is found before any evaluation."""

    def __init__(self, reason: str) -> None:
        Exception.__init__(self, f"program instantiation failed: {reason}")
        self.problems = []


class EvaluationError(Exception):
    """An expression has no value; ``||`` and ``&&`` absorb the error if their other side decides."""


class NotKnownError(EvaluationError):
    """A value depends on something that the input does not tell; the message names it."""


class CostError(Exception):
    """An evaluation has cost too much and was ended."""


def _shown(text: str, problem: Problem) -> str:
    """One problem as cel-go prints it: an empty expression has no line to show, and its column is 0."""
    if not text:
        return f"ERROR: <input>:1:0: {problem.message}"
    start = text.rfind("\n", 0, problem.at) + 1
    end = text.find("\n", problem.at)
    line = text[start : len(text) if end < 0 else end]
    number, column = text.count("\n", 0, problem.at) + 1, problem.at - start
    dots = "".join(["." if character.isascii() else WIDE_DOT for character in line[:column]])
    mark = "^" if line[column : column + 1].isascii() else WIDE_MARK
    shown = line.replace("\t", " ")
    return f"ERROR: <input>:{number}:{column + 1}: {problem.message}\n | {shown}\n | {dots}{mark}"


# ---- work --------------------------------------------------------------------------------------------------
#
# The work of an evaluation beyond what CEL's cost counts: elements visited, characters made.
#
# CEL's cost of some calls does not depend on the size of what they make or visit: lists that are doubled,
# nested lists that are compared, texts that are replaced by longer ones. Their work is limited, too, so that
# every evaluation ends soon. The limit is far above what other expressions within the cost limit need.

COST_LIMIT = 1_000_000
LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
MAX_WORK = 1_000_000
LONG_LIST = 10_000
"""Elements of a list from which on its making counts: shorter ones are made by macros, element by element."""


class _Work(local):
    done = 0


_work = _Work()


def begin_work() -> None:
    """Begin to count for a new evaluation in this thread."""
    _work.done = 0


def count_work(amount: int) -> None:
    """Count elements or characters.

    Raises
    ------
    CostError
        There are more than 1,000,000 in this evaluation.
    """
    _work.done += amount
    if _work.done > MAX_WORK:
        raise CostError(LIMIT_EXCEEDED)
