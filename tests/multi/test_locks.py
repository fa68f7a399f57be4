"""A binder decides about one unit after the other."""

from __future__ import annotations

from tests.locks import check_locked
from tests.multi.kit import World, asking


def test_a_binder() -> None:
    world = World(asking("p"))
    calls = {"bind": lambda: world.bind("p", "a"), "resume": world.binder.resume}
    calls["current"] = lambda: world.binder.current(asking("p"))
    exempt = ["sync", "client_for"]
    check_locked(world.binder, world.binder._lock, ["cache", "_waiting"], calls, exempt)
