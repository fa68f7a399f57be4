"""The base class of object structs, quantities, object metadata, label selectors and conditions."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import field

from moorage._core.base.quantity import Quantity, parse
from moorage._core.base.selectors import requirement_error

from .field_rules import each, labels, quantity, refuse, timestamp

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

    def check(self) -> None:
        refuse(requirement_error(self.key, self.operator, self.values, node=False))


class LabelSelector(Struct, frozen=True):
    """A label selector (meta/v1)."""

    match_labels: Annotated[dict[str, str], labels] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


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

    Returns
    -------
    tuple of Condition
        The new conditions.
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
    def key(self) -> str:
        """``namespace/name``, or the name alone without a namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
