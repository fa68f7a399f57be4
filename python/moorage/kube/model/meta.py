"""What all objects share: rules of fields, the base class of structs, metadata, selectors and conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import field

from moorage._core.base.quantity import Quantity, parse, parse_value
from moorage._core.base.selectors import requirement_error
from moorage._core.base.shared_parts import PartMemo
from moorage.errors import AMOUNTS, InputError, shorten

from ..field_errors import invalid

# ---- field rules -------------------------------------------------------------------------------------------
#
# Validation rules of fields.
#
# A field names its rules in its annotation, for example ``Annotated[str, one_of("TCP", "UDP")]``. A rule is a
# function of the value that raises InputError.

_EXCERPT = 80
_LABEL_VALUE = "at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends"
_MOST_DIGITS = len(str(2**63))
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
MAX_DNS_LABEL = 63
SUBDOMAIN = re.compile(rf"{DNS_LABEL.pattern}(?:\.{DNS_LABEL.pattern})*")
MAX_SUBDOMAIN = 253
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")

Rule = Callable[[Any], None]


def refuse(error: str | None) -> None:
    """Raise an InputError, unless the message is None.

    Raises
    ------
    InputError
        The message is not None.
    """
    if error is not None:
        raise InputError(error)


def required(value: object) -> None:
    """Rule: the value is not empty."""
    if not value:
        raise InputError("required")


def is_dns_label(text: str) -> bool:
    """Whether a text is a DNS label."""
    return len(text) <= MAX_DNS_LABEL and DNS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS subdomain, as names of most objects are."""
    return len(text) <= MAX_SUBDOMAIN and SUBDOMAIN.fullmatch(text) is not None


def dns_label(text: str) -> None:
    """Rule: the value is a DNS label."""
    required(text)
    if not is_dns_label(text):
        raise InputError(f'"{shorten(text)}" is not a DNS label')


def one_of(*allowed: str, required: bool = False) -> Rule:
    """Return the rule that the value is one of some strings.

    Parameters
    ----------
    *allowed : str
        The allowed values.
    required : bool
        Whether empty values and None are refused.
    """

    def rule(value: str | None) -> None:
        if value not in allowed and (value or required):
            raise InputError(f'must be one of {", ".join(allowed)}, not "{value or ""}"')

    return rule


def between(low: int, high: int | None = None) -> Rule:
    """Return the rule that the value is a number in a range, or None, with the API server's messages.

    Parameters
    ----------
    high : int, optional
        Upper bound; by default there is none.
    """

    def rule(value: int | None) -> None:
        if value is None or (value >= low and (high is None or value <= high)):
            return
        is_short = high is None or (low == 0 and value < low)
        bounds = f"greater than or equal to {low}" if is_short else f"between {low} and {high}, inclusive"
        raise InputError(f"Invalid value: {value}: must be {bounds}")

    return rule


def each(rule: Rule) -> Rule:
    """Return the rule that all items of a list, or all values of a map, follow a rule.

    Parameters
    ----------
    rule : Rule
        The rule for one item.
    """

    def of_all(items: tuple[Any, ...] | dict[str, Any] | None) -> None:
        for at, item in items.items() if isinstance(items, dict) else enumerate(items or ()):
            try:
                rule(item)
            except InputError as error:
                raise error.located(path=f"[{at}]") from None

    return of_all


def quantity(raw: str | int | float | None) -> None:
    """Rule: the value is a quantity that is not negative, or None."""
    if raw is None:
        return
    if isinstance(raw, int) and not -(1 << 63) <= raw < 1 << 63:
        raise InputError(f'{raw} is a number of more than 64 bits; write it as a text, "{raw}"')
    try:
        parse_value(raw)
    except ValueError as error:
        raise InputError(f'"{raw}" is not a quantity: {error}{AMOUNTS}') from None
    negative = raw.startswith("-") if isinstance(raw, str) else raw < 0
    if negative and Quantity(raw).sign() < 0:
        raise InputError(f'Invalid value: "{Quantity(raw)}": must be greater than or equal to 0')


def whole_number(text: str, bits: int = 32) -> int | None:
    """Parse a number in a text of an object: a name, an annotation, a version.

    Parameters
    ----------
    bits : int
        Size of the signed number that Go reads it into (strconv.ParseInt).

    Returns
    -------
    int or None
        None for anything but ASCII digits, and for a number that is too large.
    """
    if not (text.isascii() and text.isdecimal()) or len(text.lstrip("0")) > _MOST_DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number < 1 << (bits - 1) else None


def share(value: int | str, total: int) -> int:
    """A number, or a percentage of a total, rounded up."""
    return value if isinstance(value, int) else -(-percent(value) * total // 100)


def percent(text: str) -> int:
    """Parse a percentage, with any number of leading zeros.

    Parameters
    ----------
    text : str
        Digits and a percent sign.

    Returns
    -------
    int
        Percent; not limited to 100.
    """
    return int(text.removesuffix("%").lstrip("0") or "0")


def int_or_percent_error(value: Any, limited: bool = True) -> str | None:
    """Say in the API server's words why a value is neither a number that is not negative nor a percentage.

    Parameters
    ----------
    limited : bool
        Whether a percentage is at most 100%.
    """
    if isinstance(value, int) and value < 0:
        return invalid(value, "must be greater than or equal to 0")
    if not isinstance(value, str):
        return None
    if re.fullmatch("[0-9]+%", value) is None:
        return invalid(value, _PERCENT)
    digits = len(value.lstrip("0"))
    if limited and (digits > len("100%") or percent(value) > 100):
        return invalid(value, "must not be greater than 100%")
    return invalid(value, "must be a 32-bit number") if digits > len("2147483647%") else None


def int_or_percent(value: int | str | None) -> None:
    """Rule: the value is a number, a percentage, which may exceed 100%, or None."""
    refuse(int_or_percent_error(value, limited=False))


def labels(value: Mapping[str, str] | None) -> None:
    """Rule: keys and values are valid for labels, or the value is None."""
    for key, text in (value or {}).items():
        error = _label_error(key, text)
        if error is not None:
            raise InputError(error, path=f"[{key}]")


def topology_key(key: str) -> None:
    """Rule: the value is a valid label key."""
    required(key)
    refuse(_label_error(key, ""))


@lru_cache(maxsize=65536)
def _label_error(key: str, value: str) -> str | None:
    if requirement_error(key, "In", (value,), node=False) is None:
        return None
    if requirement_error(key, "Exists", (), node=False) is not None:
        return f'"{shorten(key, _EXCERPT)}" is not a label key'
    return f'"{shorten(value, _EXCERPT)}" is not a label value: {_LABEL_VALUE}'


def timestamp(text: str | None) -> None:
    """Rule: the value is a time in the format of RFC 3339, or None."""
    if text is None:
        return
    try:
        if _TIMESTAMP.fullmatch(text) is None:
            raise ValueError
        datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f'"{text}" is not a timestamp like 2006-01-02T15:04:05Z') from None


# ---- objects -----------------------------------------------------------------------------------------------

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Integer types of the API; values out of range are refused, as by Go."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl apply keeps the manifest."""

QuantityLike = str | int | float
"""A quantity as written in a manifest; `moorage.kube.Quantity` parses it."""

Resources = Annotated[dict[str, QuantityLike], each(quantity)]
"""Quantity by resource, as in `requests`, `limits`, `capacity` and `allocatable`."""


def is_native(resource: str) -> bool:
    """Whether a resource is one of Kubernetes: its name has no domain, or a domain of kubernetes.io
    (kubernetes v1.36, IsNativeResource).
    """
    return "/" not in resource or "kubernetes.io/" in resource


_MICRO, _MEGA = Quantity("1u"), Quantity("1M")


def thousandths(raw: QuantityLike) -> Quantity:
    """Return a quantity, rounded up to thousandths as the API server keeps it (kubernetes v1.36,
    SetDefaults_ResourceList).

    Parameters
    ----------
    raw : str, int or float
        A quantity as written in a manifest.
    """
    exact = parse(raw)
    rounded = exact * _MICRO * _MEGA  # products are rounded up to 10**-9
    return exact if rounded == exact else rounded


def in_thousandths(resources: Resources) -> Resources:
    """Round the quantities of a resource list up to thousandths.

    Returns
    -------
    dict of str to QuantityLike
        `resources` itself if none is finer.
    """
    finer: Resources = {}
    for name, raw in resources.items():
        text = str(raw)
        if text.isalnum() and text[-1] not in "nu":
            continue  # neither a fraction nor a negative exponent
        rounded = thousandths(raw)
        if rounded != parse(raw):
            finer[name] = str(rounded)
    return resources | finer if finer else resources


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """A Kubernetes object or a part of one.

    Attributes are snake_case, field names in JSON camelCase. Unknown fields are ignored when reading. Objects
    are never changed in place: an update is a new object. Structs hold only strings, numbers and structs, so
    that they cannot form cycles and need no garbage collection.
    """

    def check(self) -> None:
        """Check the fields against each other, after each field has followed its own rules.

        Raises
        ------
        InputError
            Two fields contradict each other; the message starts with the path from this struct.
        """


class OwnerReference(Struct, frozen=True):
    """A reference to the owner of an object (meta/v1)."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """Metadata of an object (meta/v1).

    Attributes
    ----------
    managed_fields : str
        ``metadata.managedFields`` as JSON text, of objects that only server-side apply has written; see
        `apply_manifest`.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Annotated[str | None, timestamp] = None
    deletion_timestamp: Annotated[str | None, timestamp] = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Annotated[dict[str, str], labels] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    generation: Int64 = 0
    managed_fields: str = field(default="", name="$managedFields")

    def controller(self) -> OwnerReference | None:
        """Return the owner reference whose ``controller`` is true, if there is one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    def is_controlled_by(self, uid: str) -> bool:
        """Whether the controller is the object of a UID."""
        owner = self.controller()
        return owner is not None and owner.uid == uid


class LabelSelectorRequirement(Struct, frozen=True):
    """A requirement on a label (meta/v1)."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """A label selector (meta/v1)."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


@PartMemo
def _values_of(labels: dict[str, str], namespace: str) -> tuple[str, ...]:
    return (namespace, *[f"{namespace}/{key}={value}" for key, value in labels.items()])


def by_label(obj: Object) -> tuple[str, ...]:
    """Return the values of an object in an index of labels: its namespace, and each label in it."""
    return _values_of(obj.metadata.labels, obj.metadata.namespace)


def selected_labels(namespace: str, selector: LabelSelector | None) -> list[str]:
    """Return values in that index: every object that a selector selects in a namespace has exactly one."""
    if selector is None:
        return []
    needs = [(key, [value]) for key, value in selector.match_labels.items()]
    needs += [(term.key, [*term.values]) for term in selector.match_expressions if term.operator == "In"]
    return [f"{namespace}/{key}={value}" for key, values in needs[:1] for value in dict.fromkeys(values)] or [
        namespace
    ]


class Condition(Struct, frozen=True):
    """A condition of an object's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


C = TypeVar("C", bound=Condition)


def with_condition(conditions: tuple[C, ...], new: C) -> tuple[C, ...]:
    """Replace or append the condition of a type.

    If the status is unchanged, so is the transition time; there is no clock to set a new one.

    Parameters
    ----------
    conditions : tuple of Condition
        Conditions of an object's status.
    new : Condition
        Replaces the condition of its type.
    """
    for at, current in enumerate(conditions):
        if current.type == new.type:
            if current.status == new.status:
                new = msgspec.structs.replace(new, last_transition_time=current.last_transition_time)
            return (*conditions[:at], new, *conditions[at + 1 :])
    return (*conditions, new)


class Object(Struct, frozen=True):
    """A top-level object with metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    def __repr__(self) -> str:
        return f"<{self.full_name}>"

    @property
    def name(self) -> str:
        """The name in its metadata; "" where it has none."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace in its metadata; "" for kinds without namespaces."""
        return self.metadata.namespace

    @property
    def full_kind(self) -> str:
        """What tells the kind from others: the kind itself, as those that are read differ in it."""
        return self.kind

    @property
    def full_name(self) -> str:
        """``Kind namespace/name``, or ``Kind name``: how errors and answers name the object."""
        return f"{self.kind} {self.key}"

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone without a namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


# ---- resource names ----------------------------------------------------------------------------------------
#
# Names of resources: what the API server calls the objects of a kind.


@cache
def plural(struct: type[Object]) -> str:
    """Return the resource of a kind by apimachinery's rule (UnsafeGuessKindToResource).

    The resource of Pod is ``pods``, that of PriorityClass ``priorityclasses``. After a vowel, y stays, as in
    Karpenter's ``nodeoverlays``.
    """
    return plural_of(struct.__name__)


@cache
def plural_of(kind: str) -> str:
    """Return the resource of a kind by its name; see `plural`."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("s"):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") and name[-2:-1] not in "aeiou" else name + "s"


@cache
def resource(struct: type[Object]) -> str:
    """Return the resource with its group, as errors name it: ``pods``, ``replicasets.apps``."""
    return plural(struct) + group_suffix(struct)


def group_suffix(struct: type[Object]) -> str:
    """Return the API group of a kind with a leading dot; "" for the core group."""
    group = struct().api_version.rpartition("/")[0]
    return f".{group}" if group else ""
