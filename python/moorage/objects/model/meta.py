"""The base class of object structs, and object metadata."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moorage._core.base.selectors import requirement_error

from .field_rules import each, labels, quantity, refuse, timestamp

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The API's integer types: reading refuses what does not fit, as Go does."""

QuantityLike = str | int | float
"""A quantity as written in a manifest; `moorage.objects.Quantity` parses it."""

Resources = Annotated[dict[str, QuantityLike], each(quantity)]
"""Resource name to quantity, as in `requests`, `limits`, `capacity` and `allocatable`."""


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """A Kubernetes object or a part of one.

    Attributes are snake_case, the wire names camelCase. Unknown fields are ignored when reading.
    Objects are never changed in place: an update is a new object. As they hold only strings, numbers and
    one another, they cannot form cycles, and the garbage collector need not visit them.
    """

    def check(self) -> None:
        """Check the fields against one another, when each of them follows its own rules.

        Raises
        ------
        InputError
            With the path from this struct.
        """


class OwnerReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True):
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

    def controller(self) -> OwnerReference | None:
        """The owner reference whose ``controller`` is true, if there is one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class LabelSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def check(self) -> None:
        refuse(requirement_error(self.key, self.operator, self.values, node=False))


class LabelSelector(Struct, frozen=True):
    match_labels: Annotated[dict[str, str], labels] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Replace or append the condition of one type.

    The transition time is unchanged if the status is; there is no clock to set a new one.

    Parameters
    ----------
    conditions : tuple of Condition
        Those of an object's status.
    new : Condition
        Replaces the condition of its type.

    Returns
    -------
    tuple of Condition
    """
    current = next((one for one in conditions if one.type == new.type), None)
    if current is None:
        return (*conditions, new)
    if current.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=current.last_transition_time)
    return tuple(new if one is current else one for one in conditions)


class Object(Struct, frozen=True):
    """Fields of every top-level object."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone where there is no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
