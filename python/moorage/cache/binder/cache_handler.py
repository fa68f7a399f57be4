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
    """Names, times and switches of a BinderCache; times in seconds on `clock`. The defaults are Gödel's.

    Attributes
    ----------
    scheduler_name : str
        The component whose partition nodes are in.
    pod_assumed_ttl : float
        How long an assumed pod lives after `finish_binding`.
    assumed_pod_expiration : float
        How long it lives before that.
    deleted_marker_ttl : float
        How long a pod stays marked to be deleted.
    reservation_ttl : float
        How long the resources of a deleted pod stay reserved without a Reservation.
    period : float
        How often expired pods, markers and reservations are removed.
    clock : callable
    stop : threading.Event
        Ends the thread that removes them.
    resource_reservation : bool
        The feature gate ResourceReservation.
    gates : PodGates
        What feature gates say about reading pods.
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
