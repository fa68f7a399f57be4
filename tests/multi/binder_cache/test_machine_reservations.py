"""Reservations under every order of events, those of earlier pods of a name late among them, with moves,
transactions and forks: what is reserved is charged, nothing else is, and all of it ends in its time."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from tests.make import node
from tests.multi.binder_cache.binder_kit import TAKES, WANTS, Kit, pod, reservation

from moorage.errors import MoorageError
from moorage.kube import Pod

TTL = 5.0


NODES = st.sampled_from(["n", "m"])
PHASES = st.sampled_from(["", "Pending", "Matched", "TimeOut"])


def gone(incarnation: int, on: str) -> Pod:
    """One of the pods a that follow one another."""
    one = pod("a", on, WANTS)
    return replace(one, metadata=replace(one.metadata, uid=f"a{incarnation}"))


sources = st.builds(gone, st.integers(1, 3), NODES)
backs = st.builds(lambda name, on: pod(name, on, TAKES), st.sampled_from(["b", "c"]), NODES)


class ReservationMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.kit = Kit(resource_reservation=True, pod_assumed_ttl=9, reservation_ttl=TTL)
        for name in "nm":
            self.kit.cache.add_node(node(name))

    @rule(one=sources)
    def add(self, one: Pod) -> None:
        with suppress(MoorageError):
            self.kit.cache.add_pod(one)

    @rule(one=sources)
    def delete(self, one: Pod) -> None:
        with suppress(MoorageError):
            self.kit.cache.delete_pod(one)

    @rule(one=backs, finish=st.booleans())
    def assume(self, one: Pod, finish: bool) -> None:
        with suppress(MoorageError):
            self.kit.assume(one)
            if finish:
                self.kit.cache.finish_binding(one)

    @rule(one=backs)
    def forget(self, one: Pod) -> None:
        with suppress(MoorageError):
            self.kit.forget(one)

    @rule(one=backs)
    def bind(self, one: Pod) -> None:
        self.kit.cache.update_pod(replace(one, spec=replace(one.spec, node_name="")), one)

    @rule(one=backs)
    def delete_back(self, one: Pod) -> None:
        with suppress(MoorageError):
            self.kit.cache.delete_pod(one)

    @rule(one=sources, phase=PHASES)
    def add_reservation(self, one: Pod, phase: str) -> None:
        self.kit.cache.add_reservation(reservation(one, phase))

    @rule(one=sources, moved=sources, phases=st.tuples(PHASES, PHASES), owner=st.sampled_from(["", "b", "c"]))
    def update_reservation(self, one: Pod, moved: Pod, phases: tuple[str, str], owner: str) -> None:
        new = reservation(moved, phases[1], owner)
        self.kit.cache.update_reservation(reservation(one, phases[0]), new)

    @rule(one=sources)
    def delete_reservation(self, one: Pod) -> None:
        self.kit.cache.delete_reservation(reservation(one))

    @rule(seconds=st.floats(0, 2 * TTL))
    def wait(self, seconds: float) -> None:
        self.kit.clean(self.kit.clock.now + seconds)

    @rule(later=st.booleans())
    def look(self, later: bool) -> None:
        with self.kit.cache.transaction():
            self.kit.cache.clean(self.kit.clock.now + (1000 if later else 0))
            self.what_is_reserved_is_charged()

    @rule(one=sources, back=backs)
    def relist(self, one: Pod, back: Pod) -> None:
        self.kit.cache.relist([node("n"), node("m")], [one, back])

    @rule()
    def fork(self) -> None:
        self.kit.cache = self.kit.cache.fork()

    @invariant()
    def what_is_reserved_is_charged(self) -> None:
        cache = self.kit.cache
        free = []
        for name in "nm":
            with suppress(MoorageError):
                free.append(cache.get_available_placeholder_pod(pod("any", name, TAKES)).metadata.uid)
        assert sorted(free) == sorted(
            one.metadata.uid for one in cache.state.pods() if one.name.endswith("-placeholder")
        )

    def teardown(self) -> None:
        if not hasattr(self, "kit"):
            return
        for incarnation in (1, 2, 3):
            for on in "nm":
                self.kit.cache.delete_reservation(reservation(gone(incarnation, on)))
        for uid in ("b", "c", "a1", "a2", "a3"):
            for on in "nm":
                with suppress(MoorageError):
                    self.kit.cache.delete_pod(
                        replace(pod("a"), spec=pod(uid, on).spec, metadata=pod(uid).metadata)
                    )
        self.kit.clean(self.kit.clock.now + 1000)
        assert [one.metadata.uid for one in self.kit.cache.state.pods()] == []


TestReservationMachine = ReservationMachine.TestCase
TestReservationMachine.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
