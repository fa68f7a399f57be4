"""Types of CEL and the rules by which one can stand for another (cel-go, checker/types.go)."""

from __future__ import annotations

from msgspec import Struct


class CelType(Struct, frozen=True):
    """A type.

    Attributes
    ----------
    name : str
        ``int``, ``list``, ``kubernetes.Quantity``, …; of a type parameter its own name, with `is_parameter`.
    parameters : tuple of CelType
        Element, or key and value, or the type that a type is.
    is_parameter : bool
        Whether it stands for any type, the same at each place.
    """

    name: str
    parameters: tuple[CelType, ...] = ()
    is_parameter: bool = False

    def __str__(self) -> str:
        if self.parameters:
            return f"{self.name}({', '.join(map(str, self.parameters))})"
        return f"<{self.name}>" if self.is_parameter else _SHOWN.get(self.name, self.name)

    @property
    def is_dynamic(self) -> bool:
        """Whether the type is known when an expression is evaluated only."""
        return self.name in ("dyn", "any", "error")


_SHOWN = {"null_type": "null"}
BOOL, INT, UINT, DOUBLE = CelType("bool"), CelType("int"), CelType("uint"), CelType("double")
STRING, BYTES, NULL = CelType("string"), CelType("bytes"), CelType("null_type")
DYN, ANY, ERROR = CelType("dyn"), CelType("any"), CelType("error")
TIMESTAMP, DURATION = CelType("google.protobuf.Timestamp"), CelType("google.protobuf.Duration")
QUANTITY, SEMVER = CelType("kubernetes.Quantity"), CelType("kubernetes.Semver")
URL, FORMAT = CelType("kubernetes.URL"), CelType("kubernetes.NamedFormat")
IP, CIDR = CelType("net.IP"), CelType("net.CIDR")
DEVICE = CelType("kubernetes.DRADevice")
A, B = CelType("A", is_parameter=True), CelType("B", is_parameter=True)


def list_of(element: CelType) -> CelType:
    """Return the type of lists of `element`."""
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of maps from `key` to `value`."""
    return CelType("map", (key, value))


def type_of(of: CelType) -> CelType:
    """Return the type of the type `of`."""
    return CelType("type", (of,))


def optional_of(of: CelType) -> CelType:
    """Return the type of optional values of `of`."""
    return CelType("optional_type", (of,))


TYPE_NAMES = {
    **{one.name: one for one in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION)},
    **{one.name: one for one in (IP, CIDR)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": CelType("type"),
    "optional_type": optional_of(DYN),
}
"""Types that an expression can name."""

Substitutions = dict[str, CelType]
"""Type by name of a type parameter."""


def substitute(of: CelType, found: Substitutions, *, final: bool = False) -> CelType:
    """Replace type parameters by what was found for them.

    Parameters
    ----------
    final : bool
        Whether parameters for which nothing was found become ``dyn``.
    """
    while of.is_parameter and of.name in found:
        of = found[of.name]
    if of.is_parameter:
        return DYN if final else of
    if not of.parameters:
        return of
    return CelType(of.name, tuple([substitute(parameter, found, final=final) for parameter in of.parameters]))


def are_assignable(given: list[CelType], wanted: list[CelType], found: Substitutions) -> Substitutions | None:
    """Return the substitutions with which arguments fit parameters, or None.

    Parameters
    ----------
    given, wanted : list of CelType
        Types of the arguments, and of the parameters.
    found : dict of str to CelType
        What was found before; not changed.
    """
    if len(given) != len(wanted):
        return None
    trial = dict(found)
    if all(_assign(one, other, trial) for one, other in zip(given, wanted, strict=True)):
        return trial
    return None


def _assign(given: CelType, wanted: CelType, found: Substitutions) -> bool:
    if wanted.is_parameter:
        return _bind(given, wanted, found)
    if given.is_parameter:
        return _bind(wanted, given, found)
    if given.is_dynamic or wanted.is_dynamic:
        return True
    if NULL in (given, wanted):
        return _is_nullable(wanted if given == NULL else given)
    if given.name != wanted.name:
        return False
    if given.name == "type":
        return True
    if len(given.parameters) != len(wanted.parameters):
        return False
    return all(_assign(a, b, found) for a, b in zip(given.parameters, wanted.parameters, strict=True))


def _bind(other: CelType, parameter: CelType, found: Substitutions) -> bool:
    """Let a parameter stand for a type; the more general one stays."""
    if other == parameter:
        return True
    known = found.get(parameter.name)
    if known is not None:
        if known == other:
            return True
        if not _assign(other, known, found):
            return False
        general = more_general(other, known)
        if not _mentions(general, parameter.name, found):
            found[parameter.name] = general
        return True
    if _mentions(other, parameter.name, found):
        return False
    found[parameter.name] = other
    return True


def _mentions(of: CelType, name: str, found: Substitutions) -> bool:
    if of.is_parameter:
        return of.name == name or (of.name in found and _mentions(found[of.name], name, found))
    return any(_mentions(parameter, name, found) for parameter in of.parameters)


def _is_nullable(of: CelType) -> bool:
    return of in (NULL, TIMESTAMP, DURATION) or of.name.startswith(("kubernetes.", "net.", "optional_type"))


def more_general(one: CelType, other: CelType) -> CelType:
    """Return the more general of two compatible types; the first if neither is."""
    return one if _is_as_general(one, other) else other


def _is_as_general(one: CelType, other: CelType) -> bool:
    if one.is_dynamic or one.is_parameter:
        return True
    if other.is_dynamic or other.is_parameter:
        return False
    if one.name != other.name or len(one.parameters) != len(other.parameters):
        return one == NULL if NULL in (one, other) else False
    return all(_is_as_general(a, b) for a, b in zip(one.parameters, other.parameters, strict=True))
