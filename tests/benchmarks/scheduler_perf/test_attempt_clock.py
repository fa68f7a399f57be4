"""The clock of attempts: exact, in order, in steps of one attempt."""

from __future__ import annotations

from fractions import Fraction

from bench.scheduler_perf.attempt_clock import FAR, AttemptClock


def test_attempts_take_exactly_their_time() -> None:
    clock = AttemptClock(Fraction(3))
    for _ in range(30):
        clock.attempted(1)
    assert clock.exact == 10


def test_events_happen_in_order_and_only_when_they_are_due() -> None:
    clock, seen = AttemptClock(Fraction(10)), []
    clock.at(Fraction(2), lambda: seen.append("b"))
    clock.at(Fraction(1), lambda: seen.append("a"))
    clock.at(Fraction(2), lambda: seen.append("c"))
    clock.attempted(9)
    clock.run_due()
    assert seen == []
    assert clock.next_event() == 1
    clock.attempted(1)
    clock.run_due()
    assert seen == ["a"]
    clock.attempted(10)
    clock.run_due()
    assert seen == ["a", "b", "c"]
    assert clock.next_event() is None


def test_a_batch_ends_with_the_attempt_during_which_the_next_event_is_due() -> None:
    clock = AttemptClock(Fraction(3))
    assert clock.attempts_until(clock.next_event()) == FAR
    clock.at(Fraction(1), lambda: None)
    assert clock.attempts_until(clock.next_event()) == 3
    clock.attempted(1)
    assert clock.attempts_until(clock.next_event()) == 2
    clock.at(Fraction(1, 2), lambda: None)
    assert clock.attempts_until(clock.next_event()) == 1


def test_what_recurs_keeps_its_rhythm_and_ends_when_it_says_so() -> None:
    clock, ticks = AttemptClock(Fraction(1000)), []
    clock.attempted(500)

    def tick() -> bool:
        ticks.append(clock.exact)
        return len(ticks) < 3

    clock.every(Fraction(1, 3), tick)
    for _ in range(2000):
        clock.attempted(1)
        clock.run_due()
    # The first attempt that ends at or after each third of a second.
    assert ticks == [Fraction(834, 1000), Fraction(1167, 1000), Fraction(1500, 1000)]


def test_ticks_that_time_jumped_over_are_made_up_for() -> None:
    clock, ticks = AttemptClock(Fraction(1)), []
    clock.every(Fraction(1, 2), lambda: ticks.append(1) is None)
    clock.attempted(2)
    clock.run_due()
    assert len(ticks) == 4


def test_whether_a_time_has_come_is_exact() -> None:
    clock = AttemptClock(Fraction(3))
    clock.attempted(1)
    assert clock.now == 1 / 3
    assert clock.has_come(Fraction(1, 3))
    assert clock.has_come(1 / 3), "the float is a little less"
    assert not clock.has_come(Fraction(1, 3) + Fraction(1, 1 << 80))
    assert not clock.has_come(None)
    clock.set(Fraction(1, 7))
    clock.attempted(2)
    assert clock.exact == Fraction(1, 7) + Fraction(2, 3)
    assert clock.now == float(clock.exact)
