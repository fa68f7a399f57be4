"""Sweeps: cells, executors, results that are kept, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moorage as mo
from moorage import History
from moorage.errors import InputError, PluginError
from moorage.sim.sweep import Sweep, SweepResult, sweep
from tests.doors.sim import cells_of, decode_sweep, read_plugin_file
from tests.house.source import ROOT

DATA = ROOT / "tests/data/openb"


def document(**spec: Any) -> dict[str, Any]:
    """Two policies, the excerpt of openb, two seeds."""
    timeline = {
        "files": ["nodes.csv", "pods.csv"],
        "format": "openb",
        "options": {"seed": "$seed", "demand": 1.3, "shuffle_nodes": True, "every": 0},
    }
    configurations = {"FGD": policy("FGD", "$typicalPods"), "Random": policy("RandomFit")}
    return {
        "apiVersion": "sweep.moorage.dev/v1",
        "kind": "Sweep",
        "spec": {
            "timelines": {"openb": timeline},
            "configurations": configurations,
            "seeds": {"first": 1, "count": 2},
            "measures": ["gpu_allocation", "summary"],
            "replay": {"onFailure": "drop", "tieBreak": "first"},
            **spec,
        },
    }


def policy(name: str, typical: Any = ()) -> dict[str, Any]:
    rule = {"gpuSelection": "gradient", "typicalPods": typical} if typical else {}
    names = "PrioritySort", "NodeResourcesFit", "NodeAffinity", "GpuShare", "DefaultBinder"
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": one} for one in names]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": name, "weight": 1000}]},
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"plugins": plugins, "pluginConfig": [{"name": "GpuShare", "args": rule}]}],
    }


def run(executor: str = "serial", folder: Path | None = None, **spec: Any) -> SweepResult:
    return sweep(document(**spec), data=DATA, executor=executor, workers=2, folder=folder)


@pytest.fixture(scope="module")
def serial() -> SweepResult:
    return run()


def test_a_timeline_without_nodes_is_told() -> None:
    timeline = {"files": ["pods.csv"], "format": "openb"}
    with pytest.raises(mo.InputError, match="The timeline has no node"):
        run(timelines={"pods": timeline}, configurations={"none": {}})


def test_a_sweep_runs_each_combination(serial: SweepResult) -> None:
    runs = serial.runs().to_dict()
    assert list(zip(runs["configuration"], runs["seed"], strict=True)) == [
        ("FGD", 1), ("FGD", 2), ("Random", 1), ("Random", 2),
    ]  # fmt: skip
    assert runs["gpu_allocation_at_100"][:2] != runs["gpu_allocation_at_100"][2:]
    assert all(placed + dropped == pods for placed, dropped, pods in zip(
        runs["placed"], runs["dropped"], runs["pods"], strict=True
    ))  # fmt: skip
    spread = serial.spreads()["FGD", "openb", "none"]["gpu_allocation_at_100"]
    assert (spread.runs, spread.mean) == (2, pytest.approx(np.mean(runs["gpu_allocation_at_100"][:2])))
    assert serial.headline() == "4 replays of 2 combinations, 24 measures"
    first, *series = serial.of_measures(["placed", "gpu_allocation"]).measures
    numbers = [int(name.removeprefix("gpu_allocation_at_")) for name in series]
    assert (first, numbers) == ("placed", sorted(numbers))
    with pytest.raises(InputError, match='no replay has the measure "y"'):
        serial.of_measures(["y"])


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_the_result_does_not_depend_on_the_executor(executor: str, serial: SweepResult) -> None:
    assert run(executor).to_dict() == serial.to_dict()


def test_a_cell_whose_result_is_there_is_not_run_again(tmp_path: Path) -> None:
    first = run(folder=tmp_path)
    kept = sorted((tmp_path / "cells").iterdir())
    assert len(kept) == 4
    kept[0].unlink()
    kept[1].write_text("{")  # as a machine that failed might leave it
    changed = json.loads(kept[2].read_text())
    changed["measures"]["placed"] = -1.0
    kept[2].write_text(json.dumps(changed))
    again = run(folder=tmp_path)
    placed = sorted(again.runs().to_dict()["placed"])
    assert placed[0] == -1.0
    assert len(set(placed) & set(first.runs().to_dict()["placed"])) >= 1
    kept[2].unlink()
    assert run(folder=tmp_path).to_dict() == first.to_dict()
    assert sorted((tmp_path / "cells").iterdir()) == kept


def test_another_input_is_another_cell(tmp_path: Path) -> None:
    def keys(**spec: Any) -> set[str]:
        return {cell.key for cell in cells_of(decode_sweep(document(**spec)), DATA)}

    first = keys()
    assert len(first) == 4
    assert keys() == first
    assert keys(replay={"onFailure": "retry"}).isdisjoint(first)
    assert keys(measures=["summary"]).isdisjoint(first)
    assert keys(changes={"drained": [{"time": 0, "drain": "openb-node-0000"}]}).isdisjoint(first)
    assert len(keys(seeds=[2, 3]) & first) == 2
    assert keys(configurations={"other name": policy("RandomFit")}) < first


def test_changes_are_events_of_the_timeline() -> None:
    changes = {"none": [], "fewer": [{"time": 0, "leave": f"openb-node-{at:04}"} for at in range(0, 800, 40)]}
    found = run(
        changes=changes,
        configurations={"Random": policy("RandomFit")},
        seeds=[1],
        replay={"onFailure": "drop"},
    )
    runs = found.runs().to_dict()
    assert runs["change"] == ["none", "fewer"]
    assert runs["placed"][1] < runs["placed"][0]


def test_histories_are_kept(tmp_path: Path) -> None:
    found = sweep(document(seeds=[1]), data=DATA, executor="serial", folder=tmp_path, histories=True)
    files = sorted((tmp_path / "histories").iterdir())
    assert len(files) == 2
    placed = [int((np.load(file)["pod_node"] >= 0).sum()) for file in files]
    assert sorted(placed) == sorted(found.runs().to_dict()["placed"])
    with pytest.raises(mo.InputError, match="histories need a folder"):
        sweep(document(), data=DATA, histories=True)


def pods_by_node(history: History) -> dict[str, float]:
    return {"busiest": float(np.bincount(history.pod_columns["node"] + 1)[1:].max())}


def test_a_measure_of_ones_own() -> None:
    name = f"{__name__}:pods_by_node"
    found = run(measures=[name], seeds=[1])
    assert found.measures == ["busiest"]
    assert all(value > 1 for value in found.runs().to_dict()["busiest"])


def interrupted(history: History) -> dict[str, float]:
    """Ends the third replay as Ctrl-C does."""
    interrupted.replays += 1  # type: ignore[attr-defined]
    if interrupted.replays == 3:  # type: ignore[attr-defined]
        raise KeyboardInterrupt
    return {"replay": float(interrupted.replays)}  # type: ignore[attr-defined]


def test_a_serial_sweep_that_is_stopped_keeps_what_it_has(tmp_path: Path) -> None:
    interrupted.replays = 0  # type: ignore[attr-defined]
    measures = [f"{__name__}:interrupted"]
    with pytest.raises(KeyboardInterrupt):
        run(folder=tmp_path, measures=measures)
    assert len([*(tmp_path / "cells").iterdir()]) == 2
    again = run(folder=tmp_path, measures=measures)
    assert again.runs().to_dict()["replay"] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"measures": ["none"]},
            'cell FGD/openb/none/1: measures.none: no measure "none": one of utilization',
        ),
        ({"measures": ["tests.sim.sweep:none"]}, "measures.tests.sim.sweep:none: module"),
        ({"timelines": {}}, "spec.timelines: must not be empty"),
        ({"seeds": {"count": 0}}, "spec.seeds.count: must be at least 1, not 0"),
        ({"seeds": {"first": -1}}, "spec.seeds.first: Expected `int` >= 0"),
        ({"seeds": [1, -1]}, r"spec.seeds\[1\]: Expected `int` >= 0"),
        ({"seeds": [3, 1, 3]}, "spec.seeds: must differ from each other"),
        ({"replay": {"tieBreak": "zzz"}}, "spec.replay.tieBreak: Invalid enum value 'zzz'"),
        ({"timelines": {"a": {"files": ["none.csv"]}}}, "none.csv"),
        ({"configurations": {"a": "none.yaml"}}, "none.yaml"),
        ({"changes": {"a": [{"time": 0}]}}, r"cell FGD/openb/a/1: events\[0\]: must have one of create"),
        (
            {"changes": {"a": [{"time": 0, "create": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}}]}},
            "cell FGD/openb/a/1: Pod",
        ),
        ({"changes": {"a": [{"tim": 0}]}}, r"unknown field `tim`"),
        ({"replays": {}}, "unknown field `replays`"),
        ({"configurations": {"a": policy("None")}}, "None"),
    ],
)
def test_wrong_sweeps_are_refused(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(mo.InputError, match=text):
        run(**spec)


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(mo.InputError, match=r"kind: must be Sweep, not 'Scenario'"):
        sweep(document() | {"kind": "Scenario"})


def test_the_published_experiment_is_a_sweep() -> None:
    from moorage.sim.sweep import read_sweep

    spec = read_sweep(ROOT / "examples/fgd.yaml").spec
    assert len(spec.timelines) * len(spec.configurations) * spec.seeds.count == 1020  # type: ignore[union-attr]
    small = {"timelines": {"excerpt": document()["spec"]["timelines"]["openb"]}, "seeds": [42]}
    cut = Sweep(spec=mo_replace(spec, small))
    result = sweep(cut, data=DATA, executor="serial")
    found = result.runs().to_dict()
    assert len(found["configuration"]) == 6
    allocation = dict(zip(found["configuration"], found[result.measures[-1]], strict=True))
    assert allocation["FGD"] > allocation["Random"]


def mo_replace(spec: Any, values: dict[str, Any]) -> Any:
    import msgspec

    return msgspec.convert(msgspec.to_builtins(spec) | values, type(spec))


class Smallest(mo.ScorePlugin):
    """A plugin of a module, which other processes can import."""

    name = "Smallest"

    def score_all(self, state: Any, pod: Any, nodes: Any) -> Any:
        return 100 - np.minimum(nodes.allocatable["cpu"] // 10_000, 100)


OWN = mo.Registry({"Smallest": Smallest})


def with_own(plugins: mo.Registry, executor: str = "serial", folder: Path | None = None) -> SweepResult:
    configurations = {"Smallest": policy("Smallest")}
    replays = document(configurations=configurations, seeds=[1])
    return sweep(replays, data=DATA, registry=plugins, executor=executor, workers=1, folder=folder)


def test_configurations_name_plugins_of_a_registry(tmp_path: Path) -> None:
    alone = with_own(OWN)
    assert alone.to_dict() == with_own(OWN, "processes", tmp_path).to_dict()
    with pytest.raises(InputError, match='"Smallest" does not exist'):
        with_own(mo.Registry(), folder=tmp_path)  # a result of other plugins is another


def test_a_file_of_plugins_reaches_other_processes(tmp_path: Path) -> None:
    file = tmp_path / "plugins.py"
    file.write_text(
        "from tests.sim.sweep.test_sweep import Smallest, mo\n"
        "class Mine(Smallest):\n    pass\n"
        "registry = mo.Registry({'Smallest': Mine})\n"
    )
    assert with_own(read_plugin_file(str(file)), "processes").to_dict() == with_own(OWN).to_dict()


def test_plugins_that_no_other_process_can_get_are_refused() -> None:
    with pytest.raises(InputError, match="put the plugins into a module or a file"):
        with_own(mo.Registry({"Smallest": lambda args, handle: Smallest(args, handle)}), "processes")


def test_a_plugin_that_fails_on_every_pod_ends_the_replay_early() -> None:
    """Its pods would be tried again until the end of the trace, millions of times."""
    failing = policy("FGD")
    del failing["profiles"][0]["plugins"]["multiPoint"]["enabled"][3]  # GpuShare
    failing["profiles"][0]["pluginConfig"] = []
    forever = {"onFailure": "retry", "tieBreak": "first"}
    with pytest.raises(
        PluginError, match=r'^cell FGD/openb/none/1: plugin "FGD" fails on every pod; .*GpuShare'
    ):
        run(
            configurations={"FGD": failing},
            seeds=[1],
            replay=forever,
            timelines={"openb": {"files": ["nodes.csv", "pods.csv"], "format": "openb"}},
        )


def test_cells_are_checked_before_the_first_replay(tmp_path: Path) -> None:
    configurations = {"Random": policy("RandomFit"), "Wrong": policy("BestFitt")}
    with pytest.raises(InputError, match=r'cell Wrong/openb/none/1: .*"BestFitt" does not exist'):
        run(folder=tmp_path, configurations=configurations)
    assert not list((tmp_path / "cells").iterdir())
