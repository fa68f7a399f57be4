"""What planners do with a dump of a cluster and with manifests, in their words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.house.source import ROOT

import moorage as mo
from moorage.cli import main
from moorage.table import Tabular

USERS = ROOT / "tests/data/users"
DUMP = ("-f", str(USERS / "dump.json.gz"))
NODE = "ip-10-0-{}.eu-west-1.compute.internal".format


def put(*names: str) -> list[str]:
    """The dump with manifests over it."""
    return [*DUMP, *(part for name in names for part in ("-f", str(USERS / name)))]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command, and returns its exit code, what it prints, and what it says."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize(
    ("file", "pod", "node"),
    [("vol3.yaml", "pg-0", "n1"), ("vol3.yaml", "pg-1", "n1"), ("vol.yaml", "db", "n2")],
)
def test_explain_and_simulate_say_the_same(run: Any, file: str, pod: str, node: str) -> None:
    """Claims that a run binds first, local volumes, and a pod that a StatefulSet makes during the run."""
    _, simulated, _ = run("simulate", "-f", str(USERS / file), "-o", "csv")
    assert f"default,{pod}," in simulated
    assert f",placed,{node}," in next(line for line in simulated.splitlines() if f",{pod}," in line)
    code, explained, _ = run("explain", pod, "-f", str(USERS / file))
    assert (code, f"simulate places it on {node}" in explained) == (0, True)


def test_a_running_pod_with_claims_blocks_nothing(run: Any) -> None:
    code, said, _ = run("simulate", *put("dra_running.yaml"))
    assert (code, "already bound  40" in said) == (0, True)


def test_results_are_short_and_convert() -> None:
    cluster = mo.load(USERS / "dump.json.gz", USERS / "web.yaml")
    sched = mo.Scheduler(cluster)
    result, branch = sched.run(), sched.fork()
    branch.change.drain(NODE("0-10"))
    branch.run()
    pod = next(iter(result.unschedulable))
    web = next(each for each in mo.expanded(cluster).pods if each.name.startswith("web-"))
    found: list[Tabular] = [
        cluster,
        result,
        sched.ask.explain(pod),
        branch.ask.capacity(web),
        sched.ask.diff(branch),
    ]
    found += [
        sched.ask.nodes_needed((web, 3), like=NODE("1-28")),
        sched.ask.drain_plan(1),
        sched.ask.defragment(nodes=1),
    ]
    for one in found:
        assert len(repr(one).splitlines()) <= 40, type(one)
        assert one._repr_html_().startswith(("<p>", "<table"))
        assert one.to_arrow().__arrow_c_stream__() is not None
        assert json.dumps(one.to_dict())
