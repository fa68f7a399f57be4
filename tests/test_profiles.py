"""The profile of the suite reaches functions, methods and state machines."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.conftest import EXAMPLES, NIGHTLY, SHARE, share_of

runs = {"function": 0, "machine": 0}


@settings(max_examples=24, database=None)
@given(st.integers())
def test_a_function(number: int) -> None:
    runs["function"] += 1


def test_a_function_has_had_its_share_of_examples() -> None:
    runs["function"] = 0
    test_a_function()
    assert runs["function"] == 24 // SHARE


class TestMethod:
    @settings(max_examples=24, database=None)
    @given(st.integers())
    def test_a_method(self, number: int) -> None:
        asked = type(self).test_a_method._hypothesis_internal_use_settings.max_examples  # type: ignore[attr-defined]
        assert asked == 24 // SHARE


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        runs["machine"] += 1

    @rule(number=st.integers())
    def step(self, number: int) -> None:
        pass


TestMachine = Machine.TestCase
TestMachine.settings = settings(TestMachine.settings, max_examples=24, stateful_step_count=2, database=None)


def test_a_machine_has_had_its_share_of_examples() -> None:
    runs["machine"] = 0
    TestMachine("runTest").runTest()  # type: ignore[attr-defined]
    assert runs["machine"] == 24 // SHARE


def test_a_test_that_asks_for_no_number_keeps_that_of_the_profile() -> None:
    assert share_of(settings()).max_examples == EXAMPLES


def test_one_example_stays() -> None:
    assert share_of(settings(max_examples=1)).max_examples == 1


@pytest.mark.share(2)
@pytest.mark.parametrize(("number", "same"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("other", [0, 1])
def test_a_share_has_each_value_of_each_parameter(number: int, same: int, other: int) -> None:
    assert NIGHTLY or number == same == other


def test_full_collections_leave_out_what_lives_to_the_end() -> None:
    assert not any(one is TestMethod for one in gc.get_objects())
