"""What all objects share: types of values, the base class of structs, metadata, selectors and conditions."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import field

from moorage._core.base.quantity import Quantity, parse, parse_value
from moorage._core.base.shared_parts import PartMemo
from moorage.errors import AMOUNTS, InputError

# ---- texts and numbers -------------------------------------------------------------------------------------

K = TypeVar("K")

_MOST_DIGITS = len(str(2**63))
DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
MAX_DNS_LABEL = 63
SUBDOMAIN = re.compile(rf"{DNS_LABEL.pattern}(?:\.{DNS_LABEL.pattern})*")
MAX_SUBDOMAIN = 253


def is_dns_label(text: str) -> bool:
    """Whether a text is a DNS label."""
    return len(text) <= MAX_DNS_LABEL and DNS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS subdomain, as names of most objects are."""
    return len(text) <= MAX_SUBDOMAIN and SUBDOMAIN.fullmatch(text) is not None


def quantity(raw: str | int | float | None) -> None:
    """Raise an InputError unless the value is a quantity that is not negative, or None."""
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


# ---- objects -----------------------------------------------------------------------------------------------

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Integer types of the API; values out of range are refused, as by Go."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl apply keeps the manifest."""

Time = Annotated[str, msgspec.Meta(title="time")]
"""A time in the format of RFC 3339."""

QuantityLike = Annotated[str | int | float, msgspec.Meta(title="quantity")]
"""A quantity as written in a manifest; `moorage.kube.Quantity` parses it."""

Resources = Annotated[dict[str, QuantityLike], msgspec.Meta(title="resources")]
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


def whole(resource: str, quantity: Quantity) -> int:
    """Return an amount of a resource as the scheduler counts it: cpu in thousandths, all else in units,
    fractions rounded up."""
    return quantity.milli_value() if resource == "cpu" else quantity.value()


def total(amounts: Iterable[Mapping[K, Quantity]]) -> dict[K, Quantity]:
    """The sum by name, each in the format of its first amount."""
    sums = dict[K, Quantity]()
    for each in amounts:
        for name, amount in each.items():
            sums[name] = sums[name] + amount if name in sums else amount
    return sums


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

    # Modules of structs do without `from __future__ import annotations`: msgspec compiles an annotation that
    # is a text each time that it looks at the struct.


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
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
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


def by_label(obj: "Object") -> tuple[str, ...]:
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


def condition_of(conditions: Iterable[C], kind: str) -> C | None:
    """Return the condition of a type, None if there is none."""
    return next((each for each in conditions if each.type == kind), None)


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
