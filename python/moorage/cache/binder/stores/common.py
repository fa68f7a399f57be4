"""What the stores of a BinderCache have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from moorage._core.services.binder_store import BinderStore


class StoreName(StrEnum):
    """The stores, in Gödel's order."""

    PDB = "PdbStore"
    RESERVATION = "ReservationStore"
    UNIT_STATUS = "UnitStatusStore"
    DELETED_MARKER = "DeletedMarkerStore"
    NODE = "NodeStore"
    POD = "PodStore"


class Store(BinderStore):
    """A part of a BinderCache that can be asked for by its name."""

    name: ClassVar[StoreName]
