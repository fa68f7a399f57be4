"""CacheHandler: the settings of a BinderCache."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from moorage._core.base.resources import PodGates

ASSUMED_POD_EXPIRATION = 900.0
POD_ASSUMED_TTL = 300.0
DELETED_MARKER_TTL = 600.0
RESERVATION_TTL = 60.0
PERIOD = 10.0


@dataclass(frozen=True, slots=True)
class CacheHandler:
    """The settings of a BinderCache. Times are in seconds on `clock`; the defaults are Gödel's.

    Attributes
    ----------
    scheduler_name : str
        The component that owns a partition of the nodes.
    pod_assumed_ttl : float
        Seconds for which a pod stays assumed after `finish_binding`.
    assumed_pod_expiration : float
        Time to live of an assumed pod before `finish_binding`.
    deleted_marker_ttl : float
        Seconds for which the mark lives that a pod is to be deleted.
    reservation_ttl : float
        Seconds for which the resources of a deleted pod remain reserved without a Reservation.
    period : float
        Seconds between two removals of expired pods, markers and reservations.
    clock : callable
        Returns the time in seconds.
    stop : threading.Event
        Ends the thread that removes expired entries.
    resource_reservation : bool
        The feature gate ResourceReservation.
    gates : PodGates
        Feature gates that affect how pods are read.
    """

    scheduler_name: str = "godel-binder"
    pod_assumed_ttl: float = POD_ASSUMED_TTL
    assumed_pod_expiration: float = ASSUMED_POD_EXPIRATION
    deleted_marker_ttl: float = DELETED_MARKER_TTL
    reservation_ttl: float = RESERVATION_TTL
    period: float = PERIOD
    clock: Callable[[], float] = time.monotonic
    stop: threading.Event = field(default_factory=threading.Event)
    resource_reservation: bool = False
    gates: PodGates = field(default_factory=PodGates)
