"""The order in which kube-scheduler has equal pods, against Go's library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.doors.engine import order_as_upstream

RECORDED = Path(__file__).with_name("go_sort_slice.jsonl")
"""Ranks, and the order of the items after Go 1.26's sort.Slice. All ways of the algorithm are taken: parts
that are sorted by insertion, nearly in order, reversed, cut badly again and again or just well enough, or
equal."""


@pytest.mark.parametrize("line", RECORDED.read_text().splitlines())
def test_items_come_in_the_order_of_gos_library(line: str) -> None:
    case = json.loads(line)
    assert order_as_upstream(np.array(case["ranks"], dtype=np.int64)).tolist() == case["order"]


@pytest.mark.parametrize("n", [0, 1, 12])
def test_few_equal_items_stay_in_order(n: int) -> None:
    assert order_as_upstream(np.zeros(n, dtype=np.int64)).tolist() == list(range(n))
