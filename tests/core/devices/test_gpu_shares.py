"""GpuShares against a twin in plain Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.twins import gpu_share_twin as twin
from tests.doors.engine import BEST_FIT, MAX_GPUS, MAX_MODELS, RANDOM, WORST_FIT, GpuShares

MODELS = ("A", "B", "C")
cpus = st.integers(0, 8_000)
models = st.lists(st.sampled_from(MODELS), max_size=2, unique=True).map(tuple)


@st.composite
def demands(draw: st.DrawFn) -> twin.Demand:
    milli = draw(st.sampled_from((0, 1, 200, 500, 999, 1000)))
    count = draw(st.integers(1, 4)) if milli == 1000 else int(milli > 0)
    return twin.Demand(draw(cpus), milli, count, draw(models))


@st.composite
def nodes(draw: st.DrawFn) -> twin.Node:
    """A node after some takings, as `make` carries them out."""
    gpus = draw(st.integers(0, 8))
    node = twin.Node(draw(cpus), (1000,) * gpus, draw(st.sampled_from(MODELS)))
    for _ in range(draw(st.integers(0, 6))):
        demand = replace(draw(demands()), cpu=0, models=())
        if demand.milli and twin.has_gpus(node, demand):
            taken = draw(st.sampled_from(twin.options(node, demand)))
            node = twin.after(node, demand, taken)
            kinds = node.kinds | {0 if demand.milli < 1000 else demand.count}
            node = replace(node, kinds=kinds)
    return node


shape_lists = st.lists(st.tuples(demands(), st.floats(0, 1)), max_size=5)


def make(cluster: list[twin.Node], shapes: twin.Shapes) -> tuple[GpuShares, np.ndarray]:
    shares = GpuShares([(pod.cpu, pod.milli, pod.count, pod.models, share) for pod, share in shapes])
    for row, node in enumerate(cluster):
        shares.set_node(row, len(node.free), node.model, node.cpu)
        for gpu, free in enumerate(node.free):
            if free < 1000:
                shares.take(row, 1000 - free, (gpu,))
    return shares, np.arange(len(cluster), dtype=np.int32)


def ask(shares: GpuShares, demand: twin.Demand) -> None:
    shares.ask(demand.cpu, demand.milli, demand.count, demand.models)


@given(st.lists(nodes(), min_size=1, max_size=5), demands(), shape_lists)
def test_like_the_twin(cluster: list[twin.Node], demand: twin.Demand, shapes: twin.Shapes) -> None:
    shares, rows = make(cluster, shapes)
    ask(shares, demand)
    fits = [twin.has_gpus(node, demand) for node in cluster]
    assert shares.fits(rows).tolist() == fits
    assert shares.fragmentation(rows).tolist() == [twin.fragmentation(node, shapes) for node in cluster]
    assert [shares.fragment_classes(row) for row in rows] == [
        twin.fragment_classes(node, shapes) for node in cluster
    ]
    fitting = rows[np.array(fits)]
    found = shares.gradient(fitting), shares.packing(fitting)
    for at, row in enumerate(fitting.tolist()):
        node = cluster[row]
        score, gpus = twin.gradient(node, demand, shapes)
        assert found[0][at] == score
        assert shares.gradient_gpu(row) == gpus
        assert found[1][at] == twin.packing(node, demand)


@given(nodes(), demands(), st.integers(0, 1 << 62))
def test_the_choice_of_gpus(node: twin.Node, demand: twin.Demand, number: int) -> None:
    shares, _ = make([node], [])
    ask(shares, demand)
    if not twin.has_gpus(node, demand):
        return
    assert shares.free(0) == list(node.free)
    allowed = twin.options(node, demand)
    if 0 < demand.milli < 1000:
        free = [node.free[gpu] for (gpu,) in allowed]
        assert shares.choose(0, BEST_FIT) == allowed[free.index(min(free))]
        assert shares.choose(0, WORST_FIT) == allowed[free.index(max(free))]
        assert shares.choose(0, RANDOM, number) == allowed[number % len(allowed)]
    else:
        assert {shares.choose(0, rule, number) for rule in (BEST_FIT, WORST_FIT, RANDOM)} == set(allowed)


def test_clustering_goes_by_the_kinds_of_pods_on_a_node() -> None:
    cluster = [
        twin.Node(1000, (1000, 1000)),
        twin.Node(1000, (500, 1000), kinds=frozenset({0})),
        twin.Node(1000, (500, 0), kinds=frozenset({0, 1})),
        twin.Node(1000, (0, 0, 1000, 1000), kinds=frozenset({2})),
    ]
    shares = GpuShares()
    takings: list[list[tuple[int, tuple[int, ...]]]] = [
        [],
        [(500, (0,))],
        [(500, (0,)), (1000, (1,))],
        [(1000, (0, 1))],
    ]
    for row, (node, taken) in enumerate(zip(cluster, takings, strict=True)):
        shares.set_node(row, len(node.free), "", node.cpu)
        for milli, gpus in taken:
            shares.take(row, milli, gpus)
    rows = np.arange(4, dtype=np.int32)
    for demand in (
        twin.Demand(1, 0, 0),
        twin.Demand(1, 300, 1),
        twin.Demand(1, 1000, 1),
        twin.Demand(1, 1000, 2),
    ):
        ask(shares, demand)
        assert shares.clustering(rows, 8000).tolist() == [
            twin.clustering(node, demand, 8000) for node in cluster
        ]


def test_a_score_is_made_anew_for_a_node_that_has_changed() -> None:
    shares = GpuShares([(100, 500, 1, (), 1.0)])
    shares.set_node(0, 1, "", 1000)
    shares.ask(100, 500, 1)
    row = np.zeros(1, dtype=np.int32)
    before = shares.gradient(row)[0]
    shares.take(0, 300, (0,))
    node = twin.Node(1000, (700,))
    shapes: twin.Shapes = [(twin.Demand(100, 500, 1), 1.0)]
    assert shares.gradient(row)[0] == twin.gradient(node, twin.Demand(100, 500, 1), shapes)[0] != before


def test_rows_beyond_the_first_ones() -> None:
    shares = GpuShares()
    shares.set_node(0, 1, "A", 5)
    shares.take(0, 400, (0,))
    shares.set_node(1000, 2, "A", 5)
    assert shares.free(0) == [600]
    assert shares.free(1000) == [1000, 1000]
    with pytest.raises(IndexError, match="no row 5000"):
        shares.free(5000)
    with pytest.raises(IndexError, match="no row -1"):
        shares.fits(np.array([-1], dtype=np.int32))


def test_gpus_and_models_beyond_the_limits_are_refused() -> None:
    shares = GpuShares()
    with pytest.raises(OverflowError, match="GPUs on a node"):
        shares.set_node(0, MAX_GPUS + 1, "", 0)
    shares.set_node(0, MAX_GPUS, "", 0)
    with pytest.raises(IndexError, match=f"no GPU {MAX_GPUS}"):
        shares.take(0, 1, (0, MAX_GPUS))
    assert shares.free(0) == [1000] * MAX_GPUS
    for number in range(MAX_MODELS - 1):
        shares.set_node(0, 1, str(number), 0)
    with pytest.raises(OverflowError, match="GPU models"):
        shares.set_node(0, 1, "one more", 0)


def test_a_node_with_as_many_gpus_as_there_can_be() -> None:
    """None is behind the last one, whatever the memory there has."""
    node, demand = twin.Node(1000, (500,) * MAX_GPUS), twin.Demand(100, 10, 1)
    shapes: twin.Shapes = [(twin.Demand(100, 1000, 1), 1.0)]
    shares, rows = make([node], shapes)
    ask(shares, demand)
    score, gpus = twin.gradient(node, demand, shapes)
    assert shares.gradient(rows).tolist() == [score]
    assert shares.gradient_gpu(0) == gpus
    assert shares.free(0) == [500] * MAX_GPUS
