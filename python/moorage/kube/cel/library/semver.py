"""Semantic versions as values of CEL (semver.org 2.0.0)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache, total_ordering

from moorage._core.base.quantity import wrap_int64
from moorage.kube.cel import overloads as cost

from ..cel_errors import EvaluationError
from ..cel_types import BOOL, INT, SEMVER, STRING
from ..overloads import Library
from ..values import UINT_MAX, register
from .string_functions import quote

_DIGITS, _NUMBER, _IDENTIFIER = map(re.compile, ("[0-9]", "[0-9]*", "[0-9A-Za-z-]*"))


@total_ordering
@dataclass(frozen=True, eq=False)
class Semver:
    """A version; build metadata does not count in comparisons."""

    major: int
    minor: int
    patch: int
    pre_release: tuple[str, ...] = ()

    @cached_property
    def _order(self) -> tuple[object, ...]:
        parts = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in self.pre_release]
        return (self.major, self.minor, self.patch, not parts, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order == other._order

    def __lt__(self, other: Semver) -> bool:
        return self._order < other._order

    __hash__ = None  # type: ignore[assignment]


register(Semver, SEMVER, "cel.Semver")


@lru_cache(maxsize=1 << 10)
def parse_semver(text: str) -> Semver:
    """Return the version of a text.

    Checks and texts of errors are in the order of the library that Kubernetes takes (blang/semver).

    Raises
    ------
    EvaluationError
        The text is not a version.
    """
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    rest, has_build, build = parts[2].partition("+")
    patch, has_pre_release, pre_release = rest.partition("-")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    number = _number("patch", patch)
    identifiers = pre_release.split(".") if has_pre_release else []
    for identifier in identifiers:
        _check_pre_release(identifier)
    for one in build.split(".") if has_build else ():
        if not one:
            raise EvaluationError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(one):
            raise EvaluationError(f"Invalid character(s) found in build meta data {quote(one)}")
    return Semver(major, minor, number, tuple(identifiers))


def _number(name: str, digits: str) -> int:
    """Return a number of a version."""
    if not _NUMBER.fullmatch(digits):
        raise EvaluationError(f"Invalid character(s) found in {name} number {quote(digits)}")
    if digits[:1] == "0" and digits != "0":
        text = f"{name.capitalize()} number must not contain leading zeroes {quote(digits)}"
        raise EvaluationError(text)
    return _unsigned(digits)


def _unsigned(digits: str) -> int:
    """Return an unsigned integer of 64 bits, with the errors of Go's strconv."""
    if not digits or len(digits) > len(str(UINT_MAX)) or int(digits) > UINT_MAX:
        why = "value out of range" if digits else "invalid syntax"
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(digits)}: {why}")
    return int(digits)


def _check_pre_release(identifier: str) -> None:
    """Raise EvaluationError unless an identifier may stand in a pre-release."""
    if not identifier:
        raise EvaluationError("Prerelease is empty")
    if _NUMBER.fullmatch(identifier):
        if identifier[0] == "0" and identifier != "0":
            text = f"Numeric PreRelease version must not contain leading zeroes {quote(identifier)}"
            raise EvaluationError(text)
        _unsigned(identifier)
    elif not _IDENTIFIER.fullmatch(identifier):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quote(identifier)}")


def _normalized(text: str) -> str:
    """A text with what is often left out or added: ``v1.02`` as ``1.2.0``."""
    parts = [_without_zeros(one) for one in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeros(part: str) -> str:
    """A part of a version without leading zeros; one stays where no digit follows."""
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if _DIGITS.match(rest) else f"0{rest}"


def _semver(text: str, loose: bool = False) -> Semver:
    return parse_semver(_normalized(text) if loose else text)


def _is_semver(text: str, loose: bool = False) -> bool:
    try:
        _semver(text, loose)
    except EvaluationError:
        return False
    return True


def compare(one: Semver, other: Semver) -> int:
    """Return -1, 0 or 1."""
    return (other < one) - (one < other)


def add_semver_functions(library: Library) -> None:
    """Add the overloads of this module."""
    library.function("semver", [STRING], SEMVER, _semver, cost.traversal)
    library.function("semver", [STRING, BOOL], SEMVER, _semver, cost.traversal)
    library.function("isSemver", [STRING], BOOL, _is_semver, cost.traversal)
    library.function("isSemver", [STRING, BOOL], BOOL, _is_semver, cost.traversal)
    library.member("isGreaterThan", [SEMVER, SEMVER], BOOL, lambda a, b: b < a)
    library.member("isLessThan", [SEMVER, SEMVER], BOOL, lambda a, b: a < b)
    library.member("compareTo", [SEMVER, SEMVER], INT, compare)
    library.member("major", [SEMVER], INT, lambda a: wrap_int64(a.major))
    library.member("minor", [SEMVER], INT, lambda a: wrap_int64(a.minor))
    library.member("patch", [SEMVER], INT, lambda a: wrap_int64(a.patch))
