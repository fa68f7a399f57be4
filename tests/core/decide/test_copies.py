"""Copies of a pod are counted as that many pods are, and taken back by a rollback."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.engine import PodBatch, account_copies, filters_rows_alone
from tests.make import node, pod, port

from moorage import Scheduler
from moorage.kube import Cluster

TEMPLATE = pod("w", requests={"cpu": "300m", "memory": "1Gi", "example.com/dongle": 1})


def scheduler(nodes: int) -> Scheduler:
    return Scheduler(
        Cluster(nodes=[node(f"n{at}", pods="99", **{"example.com/dongle": "99"}) for at in range(nodes)])
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_copies_count_as_pods(copies: list[int]) -> None:
    many, each = scheduler(len(copies)), scheduler(len(copies))
    rows = np.arange(len(copies), dtype=np.int32)
    for row, count in enumerate(copies):
        for at in range(count):
            each.cache.state.put(
                pod(f"w{row}-{at}", requests=TEMPLATE.spec.containers[0].resources.requests), row
            )
    before = {name: many.table.requested[name].tolist() for name in many.table.requested}
    with many.cache.transaction():
        batch = PodBatch.of_template(many.cache.state, TEMPLATE, 1, 0, many.context.routes)
        account_copies(many.cache.state, batch, rows, np.array(copies, dtype=np.int32))
        for name in ("cpu", "memory", "pods", "example.com/dongle"):
            assert (
                many.table.column("requested", name).tolist() == each.table.column("requested", name).tolist()
            )
        assert many.table.nonzero["cpu"].tolist() == each.table.nonzero["cpu"].tolist()
    assert {name: many.table.requested[name].tolist() for name in before} == before


@pytest.mark.parametrize(("rows", "copies"), [([0], [1, 2]), ([1], [1]), ([-1], [1])])
def test_rows_that_are_not_there(rows: list[int], copies: list[int]) -> None:
    one = scheduler(1)
    batch = PodBatch.of_template(one.cache.state, TEMPLATE, 1, 0, one.context.routes)
    with pytest.raises(IndexError):
        account_copies(one.cache.state, batch, np.array(rows, np.int32), np.array(copies, np.int32))
    assert one.table.requested["cpu"].tolist() == [0]


def test_filters_that_read_other_rows() -> None:
    one = scheduler(1)
    for template, alone in ((TEMPLATE, True), (pod("p", ports=[port(80)]), False)):
        batch = PodBatch.of_template(one.cache.state, template, 1, 0, one.context.routes)
        assert filters_rows_alone(one.context.engine_for(template).search, batch) is alone
