"""The native driver runs, and sees what is wrong."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.campaign.native.drive import NODES, comparison, drive, node_states, pods
from tests.doors.engine import ClusterState
from tests.house.source import ROOT

# tests/core/state/ compares the same state with recomputation; the campaign runs the driver at length.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def driver_type(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("native")
    command = [sys.executable, "-m", "tests.campaign.native.build_driver", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        from native_driver import Driver  # type: ignore[import-not-found]

        yield Driver


def test_operations_agree_with_recomputation(driver_type: Any) -> None:
    totals = drive(driver_type, 20_000, seed=5)
    assert totals["operations"] == 20_000
    assert min(totals[name] for name in ("checks", "rollbacks", "refusals", "decisions")) > 0


def test_a_change_behind_its_back_is_seen(driver_type: Any) -> None:
    state = ClusterState()
    driver = driver_type(state, pods(), node_states(), NODES, comparison(state), 1)
    driver.run(1000)
    driver.verify()
    state.put(pods()[0], 0)
    with pytest.raises(AssertionError, match="of node"):
        driver.verify()
