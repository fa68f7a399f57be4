"""The same question by two ways: some relations over few clusters; `make agreement` asks for longer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.agreement.clusters import Cluster, fixed
from tests.agreement.drawing import draw
from tests.agreement.dumps import DUMPS, share
from tests.agreement.judge import judge
from tests.agreement.known import KNOWN, MOST
from tests.agreement.relation import RELATIONS
from tests.house.source import ROOT

T = TypeVar("T")
SEED = 0
DRAWN = 14
SHARE = 5
"""By day a cluster is asked one relation of so many, each cluster others."""
OF_POOLS = ["planned-nodes", "price-of-a-node", "explained-pods"]
"""What is asked of a cluster with NodePools: each question looks at hundreds of types."""
OF_FIXED = [*OF_POOLS, "planned-drain", "later-workload", "nothing-helps", "offered-by-explain"]
FIXED = {cluster.name: cluster for cluster in fixed()}


QUICK = (
    "behind_an_unready_pod",
    "etcd_quorum_guard",
    "job_that_may_not_fail",
    "openshift_insights",
    "ordered_set_waits",
    "selected_zone_without_gpu",
    "spread_without_gpu",
    "zero_or_max",
)


def by_day(clusters: Iterable[T], *quick: T) -> list[Any]:
    """Return clusters as parameters of a test; those that are not quick are asked by night."""
    return [pytest.param(each, marks=() if each in quick else pytest.mark.nightly) for each in clusters]


def agree(cluster: Cluster, folder: Path, names: list[str]) -> None:
    """Fail with the first differences that no page states."""
    asked = [name for name in names if name in OF_POOLS or not cluster.of("NodePool")]
    verdict = judge([cluster], folder, asked)
    differences = [f"{one.relation}, {one.about}:\n{one.text}" for one in verdict.wrong]
    assert differences == [], "\n\n".join([f"the files are in {folder}", *differences[:5]])


def some(number: int) -> list[str]:
    """The relations of a share, or the next one."""
    return [name for at, name in enumerate(RELATIONS) if (at + number) % SHARE == 0]


@pytest.mark.parametrize("number", by_day(range(DRAWN), 3, 8))
def test_drawn_clusters(number: int, tmp_path: Path) -> None:
    agree(draw(SEED, number), tmp_path, some(number))


@pytest.mark.parametrize("name", by_day(FIXED, *QUICK))
def test_fixed_clusters(name: str, tmp_path: Path) -> None:
    agree(FIXED[name], tmp_path, OF_FIXED)


@pytest.mark.parametrize("number", by_day(range(len(DUMPS)), 2))
def test_shares_of_dumps(number: int, tmp_path: Path) -> None:
    agree(share(SEED, number), tmp_path, some(number))


def test_what_the_docs_state_only_shrinks() -> None:
    assert len(KNOWN) <= MOST <= 10
    for name, line in KNOWN.items():
        page, words = line.stated
        assert words in re.sub(r"\s+", " ", (ROOT / page).read_text()), name
