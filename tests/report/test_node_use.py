"""Use of nodes: squares of heat maps, tables by zone and pool."""

from __future__ import annotations

import numpy as np
import pytest

import moorage as mo
from moorage.answers import current_use
from tests.doors.answers import NodeUse, heat_map, node_grid

SQUARES = 10_000  # of a heat map at most


def some(nodes: int) -> NodeUse:
    names = [f"n{at}" for at in range(nodes)]
    zones, pools = ["ab"[at % 2] for at in range(nodes)], ["xyz"[at % 3] for at in range(nodes)]
    there = np.full(nodes, 10)
    there[0] = 0
    labels = {"zone": "z", "pool": "p"}
    return NodeUse(
        names, {"zone": zones, "pool": pools}, labels, {"cpu": np.arange(nodes) % 11}, {"cpu": there}
    )


def test_a_square_is_a_node() -> None:
    found = heat_map(some(5))
    assert found is not None
    assert found.data["names"] == ["n0", "n1", "n2", "n3", "n4"]
    assert found.data["resources"] == [{"name": "cpu", "percent": [None, 10.0, 20.0, 30.0, 40.0]}]
    assert found.data["groups"]["zone"] == {"names": ["a", "b"], "of": [0, 1, 0, 1, 0]}
    assert "counts" not in found.data


def test_neighbours_share_a_square_where_there_are_many() -> None:
    number = 2 * SQUARES - 1
    use = some(number)
    found = heat_map(use)
    assert found is not None
    assert len(found.data["names"]) <= SQUARES + 6  # a rest for each zone and pool
    assert sum(found.data["counts"]) == number
    groups = [list(zip(use.groupings["zone"], use.groupings["pool"], strict=True))]
    requested, there = use.requested["cpu"], use.allocatable["cpu"]
    of = zip(found.data["groups"]["zone"]["of"], found.data["groups"]["pool"]["of"], strict=True)
    totals: dict[tuple[str, str], list[float]] = {}
    for (zone, pool), count, percent in zip(
        of, found.data["counts"], found.data["resources"][0]["percent"], strict=True
    ):
        totals.setdefault(("ab"[zone], "xyz"[pool]), []).append(percent * count)
    for key, parts in totals.items():
        here = np.array([one == key for one in groups[0]])
        if there[here].min() > 0:
            assert sum(parts) / here.sum() == pytest.approx(
                100 * requested[here].sum() / there[here].sum(), abs=0.1
            )


def test_without_nodes_there_is_nothing() -> None:
    use = current_use(mo.Scheduler(mo.Cluster()))
    assert (heat_map(use), node_grid(use)) == (None, None)


def test_the_first_label_of_pools_is_taken() -> None:
    cluster = mo.synthetic(nodes=4, zones=2)
    for at, node in enumerate(cluster.nodes):
        node.metadata.labels["node.kubernetes.io/instance-type"] = "large"
        if at == 0:
            node.metadata.labels["cloud.google.com/gke-nodepool"] = "blue"
    use = current_use(mo.Scheduler(cluster))
    assert use.labels["pool"] == "cloud.google.com/gke-nodepool"
    assert use.groupings["pool"] == ["blue", "", "", ""]
    assert set(use.groupings["zone"]) == {"zone-0", "zone-1"}
