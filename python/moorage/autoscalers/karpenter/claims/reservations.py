"""Instances that were paid for before: how many of each reservation are left, and who holds them.

Rules: Karpenter v1.15.0, reservationmanager.go and nodeclaim.go (offeringsToReserve).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moorage.autoscalers.instance_types.labels import RESERVED

from ..requirements.requirement_set import RequirementSet
from .type_columns import KnownOffering, KnownType

UNAVAILABLE = (
    "one or more instance types with compatible reserved offerings are available, but could not be reserved"
)
FALLS_THROUGH = "the only compatible reserved offering is full; falling through to other NodePools"
FULL = "all compatible reserved offerings are full and no on-demand or spot fallback is available"
WOULD_LOSE = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"


class ReservationError(str):
    """Why a pod has to wait for a reservation; it gives up no preference, and no lower pool is asked."""

    __slots__ = ()


def reserved_instances(types: Iterable[KnownType]) -> dict[str, int]:
    """By reservation, the fewest instances that any of its offerings states."""
    left: dict[str, int] = {}
    for one in types:
        for known in one.offerings:
            offering = known.offering
            if offering.capacity_type == RESERVED:
                before = left.get(offering.reservation_id, offering.reservation_capacity)
                left[offering.reservation_id] = min(before, offering.reservation_capacity)
    return left


class Reservations:
    """What is left of each reservation, and which claims hold one.

    Parameters
    ----------
    instances : mapping of str to int
        By reservation, how many there are when a pass begins.
    strict : bool
        Whether pods wait for reservations that others hold; else they get nodes without one.
    freed : str
        A reservation of which one more instance will be free.
    """

    def __init__(self, instances: Mapping[str, int], strict: bool = True, freed: str = "") -> None:
        self._strict, self._freed = strict, freed
        self._left = dict(instances)
        self._held: dict[str, set[str]] = {}
        if freed in self._left:
            self._left[freed] += 1

    def _can(self, host: str, reservation: str) -> bool:
        return reservation in self._held.get(host, ()) or self._left[reservation] != 0

    def choose(
        self, host: str, types: Iterable[KnownType], requirements: RequirementSet, holds: bool
    ) -> list[KnownOffering] | str:
        """The offerings that a claim would reserve; all that are compatible and have an instance left.

        Parameters
        ----------
        host : str
            The claim.
        holds : bool
            Whether the claim holds a reservation now.
        """
        left, full, others = False, False, False
        found: list[KnownOffering] = []
        for one in types:
            for known in one.offerings:
                offering = known.offering
                if not offering.available or requirements.refusal(known.requirements, undefined=True):
                    continue
                if offering.capacity_type != RESERVED:
                    others = True
                elif offering.reservation_capacity == 0 and offering.reservation_id != self._freed:
                    full = True
                else:
                    left = True
                    if self._can(host, offering.reservation_id):
                        found.append(known)
        if not self._strict:
            return FALLS_THROUGH if full and not left and not others else found
        if left and not found:
            return ReservationError(UNAVAILABLE)
        if full and not left and not others:
            return ReservationError(FULL)
        return ReservationError(WOULD_LOSE) if holds and not found else found

    def take(self, host: str, before: Iterable[KnownOffering], offerings: Iterable[KnownOffering]) -> None:
        """Reserve offerings for a claim in place of those that it held."""
        held = self._held.setdefault(host, set())
        wanted = {known.offering.reservation_id for known in offerings}
        for reservation in wanted - held:
            self._left[reservation] -= 1
        for reservation in {known.offering.reservation_id for known in before} & held - wanted:
            self._left[reservation] += 1
            held.discard(reservation)
        held |= wanted
