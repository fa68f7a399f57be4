"""Semantic versions as values of CEL (semver.org 2.0.0)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, total_ordering

from moorage.devices.cel import overloads as cost
from moorage.devices.cel.cel_errors import EvaluationError
from moorage.devices.cel.cel_types import BOOL, INT, SEMVER, STRING
from moorage.devices.cel.overloads import Library
from moorage.devices.cel.values import register
from moorage.objects.model.resource_slices import SEMVER as SYNTAX

_LOOSE = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?((?:[-+].*)?)", re.DOTALL)
_DIGITS = 19


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


register(Semver, SEMVER)


def parse_semver(text: str) -> Semver | None:
    """Return the version of a text, or None.

    Parameters
    ----------
    text : str

    Returns
    -------
    Semver or None
    """
    match = SYNTAX.fullmatch(text)
    if match is None:
        return None
    if max(len(match[at]) for at in (1, 2, 3)) > _DIGITS:
        return None
    major, minor, patch = (int(match[at]) for at in (1, 2, 3))
    return Semver(major, minor, patch, tuple(match[4].split(".")) if match[4] else ())


def _normalized(text: str) -> str:
    """A text with what is often left out or added: ``v1.02`` as ``1.2.0``."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        return text
    numbers = [(match[at] or "0").lstrip("0") or "0" for at in (1, 2, 3)]
    return ".".join(numbers) + match[4]


def _semver(text: str, loose: bool = False) -> Semver:
    found = parse_semver(_normalized(text) if loose else text)
    if found is None:
        raise EvaluationError(f"{text!r} is not a semantic version")
    return found


def _is_semver(text: str, loose: bool = False) -> bool:
    return parse_semver(_normalized(text) if loose else text) is not None


def compare(one: Semver, other: Semver) -> int:
    """Return -1, 0 or 1."""
    return (other < one) - (one < other)


def add_semver_functions(library: Library) -> None:
    """Add the overloads of this module.

    Parameters
    ----------
    library : Library
    """
    library.function("semver", [STRING], SEMVER, _semver, cost.traversal)
    library.function("semver", [STRING, BOOL], SEMVER, _semver, cost.traversal)
    library.function("isSemver", [STRING], BOOL, _is_semver, cost.traversal)
    library.function("isSemver", [STRING, BOOL], BOOL, _is_semver, cost.traversal)
    library.member("isGreaterThan", [SEMVER, SEMVER], BOOL, lambda a, b: b < a)
    library.member("isLessThan", [SEMVER, SEMVER], BOOL, lambda a, b: a < b)
    library.member("compareTo", [SEMVER, SEMVER], INT, compare)
    library.member("major", [SEMVER], INT, lambda a: a.major)
    library.member("minor", [SEMVER], INT, lambda a: a.minor)
    library.member("patch", [SEMVER], INT, lambda a: a.patch)
