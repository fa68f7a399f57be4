"""Virtual time: exact, in order, in steps of one attempt."""

from __future__ import annotations

from fractions import Fraction

from moorage.sim.perf.virtual_time import FAR, VirtualTime


def test_attempts_take_exactly_their_time() -> None:
    time = VirtualTime(Fraction(3))
    for _ in range(30):
        time.attempted(1)
    assert time.now == 10


def test_events_happen_in_order_and_only_when_they_are_due() -> None:
    time, seen = VirtualTime(Fraction(10)), []
    time.at(Fraction(2), lambda: seen.append("b"))
    time.at(Fraction(1), lambda: seen.append("a"))
    time.at(Fraction(2), lambda: seen.append("c"))
    time.attempted(9)
    time.run_due()
    assert seen == []
    assert time.next_event() == 1
    time.attempted(1)
    time.run_due()
    assert seen == ["a"]
    time.attempted(10)
    time.run_due()
    assert seen == ["a", "b", "c"]
    assert time.next_event() is None


def test_a_batch_ends_with_the_attempt_during_which_the_next_event_is_due() -> None:
    time = VirtualTime(Fraction(3))
    assert time.attempts_until(time.next_event()) == FAR
    time.at(Fraction(1), lambda: None)
    assert time.attempts_until(time.next_event()) == 3
    time.attempted(1)
    assert time.attempts_until(time.next_event()) == 2
    time.at(Fraction(1, 2), lambda: None)
    assert time.attempts_until(time.next_event()) == 1


def test_what_recurs_keeps_its_rhythm_and_ends_when_it_says_so() -> None:
    time, ticks = VirtualTime(Fraction(1000)), []
    time.attempted(500)

    def tick() -> bool:
        ticks.append(time.now)
        return len(ticks) < 3

    time.every(Fraction(1, 3), tick)
    for _ in range(2000):
        time.attempted(1)
        time.run_due()
    # The first attempt that ends at or after each third of a second.
    assert ticks == [Fraction(834, 1000), Fraction(1167, 1000), Fraction(1500, 1000)]


def test_ticks_that_time_jumped_over_are_made_up_for() -> None:
    time, ticks = VirtualTime(Fraction(1)), []
    time.every(Fraction(1, 2), lambda: ticks.append(1) is None)
    time.attempted(2)
    time.run_due()
    assert len(ticks) == 4


def test_whether_a_time_has_come_is_exact() -> None:
    time = VirtualTime(Fraction(3))
    time.attempted(1)
    assert time.seconds == 1 / 3
    assert time.has_come(Fraction(1, 3))
    assert time.has_come(1 / 3), "the float is a little less"
    assert not time.has_come(Fraction(1, 3) + Fraction(1, 1 << 80))
    assert not time.has_come(None)
    time.now = Fraction(1, 7)
    time.attempted(2)
    assert time.now == Fraction(1, 7) + Fraction(2, 3)
    assert time.seconds == float(time.now)
