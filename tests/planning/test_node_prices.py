"""The cheapest new nodes for pods."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from moorage import InputError, Scheduler, load


def node(name: str, cpu: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


BIG, SMALL = node("big", "8"), node("small", "4")


@pytest.fixture
def scheduler() -> Scheduler:
    """With 14 pods that need 3 cpu each: two fit a big node, one a small one."""
    items = [pod(f"p{at}", "3") for at in range(14)]
    return Scheduler(load({"apiVersion": "v1", "kind": "List", "items": items}))


@pytest.mark.parametrize(
    ("big", "small", "cheapest", "price"),
    [(1.0, 0.4, [0, 14], 5.6), (1.0, 0.6, [7, 0], 7.0), (1.0, 0.5, [7, 0], 7.0)],
)
def test_the_cheapest_plan_is_beside_the_one_with_fewest_nodes(
    scheduler: Scheduler, big: float, small: float, cheapest: list[int], price: float
) -> None:
    found = scheduler.ask.nodes_needed(like=[BIG, SMALL], prices={"big": big, "small": small})
    assert found.counts == {"big": 7, "small": 0}
    assert found.cheapest is not None
    assert [*found.cheapest.values()] == cheapest
    assert found.price(found.cheapest) == pytest.approx(price)
    least = min(a * big + b * small for a, b in product(range(8), range(15)) if 2 * a + b >= 14)
    assert found.price(found.cheapest) == pytest.approx(least)
    document = found.to_dict()
    assert document["pricePerHour"] == pytest.approx(7 * big)
    assert document["cheapestPerHour"] == pytest.approx(price)
    told = "no cheaper way was found" if cheapest == [7, 0] else "cheapest found: 14 nodes, 5.60 $/h"
    assert found.headline().endswith(told)


def test_templates_without_a_price_are_not_part_of_the_cheapest_plan(scheduler: Scheduler) -> None:
    found = scheduler.ask.nodes_needed(like=[BIG, SMALL], prices={"small": 9.0})
    assert found.cheapest == {"big": 0, "small": 14}
    assert found.price(found.counts) is None
    assert scheduler.ask.nodes_needed(like=[BIG, SMALL]).cheapest is None
    assert "cheapest" not in scheduler.ask.nodes_needed(like=[BIG, SMALL]).table().to_dict()


def test_a_price_of_no_template_is_an_error(scheduler: Scheduler) -> None:
    with pytest.raises(InputError, match='there is no template "bog"'):
        scheduler.ask.nodes_needed(like=[BIG], prices={"bog": 1.0})
    with pytest.raises(InputError, match="must be a number of at least 0"):
        scheduler.ask.nodes_needed(like=[BIG], prices={"big": float("nan")})
