"""Semantic versions in CEL: which texts are versions, and what is said of others."""

from __future__ import annotations

import pytest
from tests.cel.test_selectors import matches
from tests.doors.engine import SelectorError


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Version string empty"),
        ("t4", "No Major.Minor.Patch elements found"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("x.1.1", 'Invalid character(s) found in major number "x"'),
        ("1.-1.1", 'Invalid character(s) found in minor number "-1"'),
        ("1.1.x-a", 'Invalid character(s) found in patch number "x"'),
        ("01.1.1", 'Major number must not contain leading zeroes "01"'),
        ("1.1.00", 'Patch number must not contain leading zeroes "00"'),
        ("..", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.18446744073709551616.1", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("1.1.1-", "Prerelease is empty"),
        ("1.1.1-a..b", "Prerelease is empty"),
        ("1.1.1-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.1.1-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.1.1+", "Build meta data is empty"),
        ("1.1.1+a.*", 'Invalid character(s) found in build meta data "*"'),
    ],
)
def test_texts_that_are_no_versions(text: str, error: str) -> None:
    assert matches(f'!isSemver("{text}")')
    with pytest.raises(SelectorError) as caught:
        matches(f'semver("{text}").major() == 0')
    assert str(caught.value) == error


ORDERED = (
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-a",
    "1.0.0-a.1",
    "1.0.0-a.b",
    "1.0.0",
    "1.0.1",
    "1.10.0",
)


def test_versions_are_ordered_by_semver() -> None:
    for at, one in enumerate(ORDERED):
        for other_at, other in enumerate(ORDERED):
            order = (at > other_at) - (at < other_at)
            assert matches(f'semver("{one}").compareTo(semver("{other}")) == {order}')
    assert matches('semver("1.0.0+a.-.0").compareTo(semver("1.0.0")) == 0')


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.02", "1.2.0"),
        ("01", "1.0.0"),
        ("1.0.00", "1.0.0"),
        ("1.2.03-a+b", "1.2.3-a"),
        ("1.2.0-a", "1.2.0-a"),
        ("1.2.00-a", "1.2.0-a"),
    ],
)
def test_loose_texts_are_read_as_versions(text: str, version: str) -> None:
    assert matches(f'isSemver("{text}", true) && semver("{text}", true) == semver("{version}")')


@pytest.mark.parametrize("text", ["1-a", "1.2-x.3", "1.2+b", "vv1", " 1.0.0", "v", "1.2.3.4"])
def test_texts_that_are_no_versions_loosely_either(text: str) -> None:
    assert matches(f'!isSemver("{text}", true)')


def test_numbers_wrap_at_64_bits() -> None:
    assert matches('semver("18446744073709551615.9223372036854775807.0").major() == -1')
    assert matches('semver("0.9223372036854775807.0").minor() == 9223372036854775807')
