"""Use of nodes: squares of heat maps, tables by zone and pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import moorage as mo
from moorage.answers import current_use, simulation_page
from tests.house.source import ROOT
from tests.report.pages import Read

SQUARES = 10_000  # of a heat map at most


NONE = current_use(mo.Scheduler(mo.Cluster()))


def some(nodes: int) -> Any:
    names = [f"n{at}" for at in range(nodes)]
    zones, pools = ["ab"[at % 2] for at in range(nodes)], ["xyz"[at % 3] for at in range(nodes)]
    there = np.full(nodes, 10)
    there[0] = 0
    return replace(
        NONE,
        names=names,
        groupings={"zone": zones, "pool": pools},
        labels={"zone": "z", "pool": "p"},
        requested={"cpu": np.arange(nodes) % 11},
        allocatable={"cpu": there},
    )


@pytest.fixture(scope="module")
def document() -> Any:
    return mo.simulate(ROOT / "examples").document()


def heat_map(use: Any, document: Any) -> Any:
    """What the map of a page shows; None without one."""
    found = Read(simulation_page(document, use, None, ["nodes"]).html())
    maps = [block for block in found.data.values() if isinstance(block, dict) and "names" in block]
    return maps[0] if maps else None


def test_a_square_is_a_node(document: Any) -> None:
    found = heat_map(some(5), document)
    assert found["names"] == ["n0", "n1", "n2", "n3", "n4"]
    assert found["resources"] == [{"name": "cpu", "percent": [None, 10.0, 20.0, 30.0, 40.0]}]
    assert found["groups"]["zone"] == {"names": ["a", "b"], "of": [0, 1, 0, 1, 0]}
    assert "counts" not in found


def test_neighbours_share_a_square_where_there_are_many(document: Any) -> None:
    number = 2 * SQUARES - 1
    use = some(number)
    found = heat_map(use, document)
    assert len(found["names"]) <= SQUARES + 6  # a rest for each zone and pool
    assert sum(found["counts"]) == number
    groups = [list(zip(use.groupings["zone"], use.groupings["pool"], strict=True))]
    requested, there = use.requested["cpu"], use.allocatable["cpu"]
    of = zip(found["groups"]["zone"]["of"], found["groups"]["pool"]["of"], strict=True)
    totals: dict[tuple[str, str], list[float]] = {}
    for (zone, pool), count, percent in zip(
        of, found["counts"], found["resources"][0]["percent"], strict=True
    ):
        totals.setdefault(("ab"[zone], "xyz"[pool]), []).append(percent * count)
    for key, parts in totals.items():
        here = np.array([one == key for one in groups[0]])
        if there[here].min() > 0:
            assert sum(parts) / here.sum() == pytest.approx(
                100 * requested[here].sum() / there[here].sum(), abs=0.1
            )


def test_use_is_summed_by_group_and_the_fullest_node_is_first(document: Any) -> None:
    use = some(6)
    use.requested["cpu"][5] = 12
    page = simulation_page(document, use, None, ["nodes"]).html()
    tables = Read(page).tables
    assert tables["By zone (label z)"][1:] == [["a", "3", "30.0 %"], ["b", "3", "53.3 %"]]
    nodes = tables["Nodes, the fullest first"][1:]
    assert [row[0] for row in nodes] == ["n5", "n4", "n3", "n2", "n1", "n0"]
    assert (nodes[0][-1], nodes[-1][-1]) == ("120.0 %", "")
    assert ("width:100%" in page, "width:120" in page) == (True, False)


def test_without_nodes_there_is_nothing(document: Any) -> None:
    assert heat_map(NONE, document) is None


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
