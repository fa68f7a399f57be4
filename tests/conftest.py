"""Profiles of the suite: the default one is quick, the nightly one is thorough.

``MOORAGE_PROFILE=nightly`` gives each test of hypothesis all of its examples, new ones each time. By default
it gets a sixteenth, always the same ones: a test that fails by day is one that a change has broken. A test
that is marked ``share(every)`` has so much of its parameters.
A test that repeats what a faster one shows is marked ``nightly``, and left out by default (``addopts`` in
pyproject.toml).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.doors.answers import highs_process
from tests.house.source import ROOT

NIGHTLY = os.environ.get("MOORAGE_PROFILE") == "nightly"
SHARE = 1 if NIGHTLY else 16
EXAMPLES = 100 // SHARE

# No test asserts how long it takes: machines are busy, and sanitized builds slow.
settings.register_profile("untimed", deadline=None, max_examples=EXAMPLES, derandomize=not NIGHTLY)
settings.load_profile("untimed")

# Looking for cycles after 700 new objects, as by default, took a quarter of the time: most objects of a test
# are gone when it ends, and what is imported stays.
gc.set_threshold(100_000)
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--accept``, for the cases in tests/cases."""
    parser.addoption("--accept", action="store_true", help="write what commands print into the text cases")


@pytest.fixture(autouse=True, scope="module")
def cheap_collections() -> None:
    """What earlier tests left is not looked at again: not by tests that look for garbage, and not in the
    processes that a twin forks, which would copy it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def solver_in_this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Linear programs are solved without a process for each, which takes 0.2 s to import HiGHS; but for the
    tests of that process."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.path.name != "test_highs_process.py":
            patch.setattr("moorage.answers.bounds.linear_program._ask_solver", highs_process.solve)
        yield


@pytest.fixture
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test names files as they are called in the repository."""
    monkeypatch.chdir(ROOT)


def is_by_day(item: pytest.Item) -> bool:
    """Whether a test is of the share of its parameters that its mark ``share`` keeps by day. Of several, it
    keeps a diagonal, which has all values of each."""
    mark, spec = item.get_closest_marker("share"), getattr(item, "callspec", None)
    if mark is None or spec is None:
        return True
    (number,) = {*spec.indices.values()}  # among the tests of its function
    diagonal = 0
    for each in reversed([*item.iter_markers("parametrize")]):
        number, at = divmod(number, len(each.args[1]))
        diagonal += at
    return diagonal % mark.args[0] == 0


def share_of(wanted: settings) -> settings:
    """Settings with this profile's share of the examples that a test asks for."""
    asked = wanted.max_examples
    return wanted if asked == EXAMPLES else settings(wanted, max_examples=max(1, asked // SHARE))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Apply the profile. A state machine keeps its settings in its class, a function in an attribute."""
    if not NIGHTLY:
        items[:] = [item for item in items if is_by_day(item)]
    tests = [getattr(item, "obj", None) for item in items]
    for test in {getattr(test, "__func__", test) for test in tests if is_hypothesis_test(test)}:
        if hasattr(test, "_hypothesis_state_machine_class"):
            continue
        test._hypothesis_internal_use_settings = share_of(test._hypothesis_internal_use_settings)
    for case in {getattr(item, "cls", None) for item in items}:
        if isinstance(getattr(case, "settings", None), settings):
            case.settings = share_of(case.settings)  # type: ignore[union-attr]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what the collection has made, which lives to the end, out of Python's collector of cycles.

    A full collection would walk these 400,000 objects, and waits until a quarter as many are new: for the
    garbage of hundreds of tests, native memory included.
    """
    gc.freeze()
    gc.enable()
