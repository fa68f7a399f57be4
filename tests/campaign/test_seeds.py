"""The committed inputs of all fuzz targets are read or refused; among them is each that once was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.__main__ import TARGETS as NAMES
from tests.campaign.fuzz.run import SEEDS, place, seeds
from tests.campaign.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_of_a_target(name: str) -> None:
    inputs = seeds(name)
    assert inputs
    for data in inputs:
        TARGETS[name](data)


def test_each_file_belongs_to_a_target() -> None:
    assert {path.stem for path in SEEDS.iterdir()} == TARGETS.keys() == set(NAMES)


def test_a_finding_is_named_by_its_place() -> None:
    with pytest.raises(KeyError) as caught:
        raise KeyError("x")
    assert place(caught.value).startswith(f"KeyError at {Path(__file__).name}:")
