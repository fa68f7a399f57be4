"""Every pod in a cycle of its own, as if a signature could bring each a hint."""

from __future__ import annotations

from tests.doors.engine import Route, Routes

from moorage import Scheduler


def place_alone(scheduler: Scheduler) -> None:
    """Have a scheduler place no pods together from now on."""
    of_class = scheduler.context._route_of_class
    scheduler.context.routes = Routes(of_class, lambda pod: Route.SIGNED)
