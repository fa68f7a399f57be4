"""Measures over time, compared with slow twins that look at each moment by itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import moorage as mo
from moorage import Timeline
from moorage.errors import InputError
from moorage.kube import Cluster, decode_object
from moorage.sim.measures import MEASURES, evaluate, measure
from tests.doors.sim import allocatable_of, requests_of
from tests.sim.measures.histories import TYPE, ZONE, State, moments, state_at, timelines, zoned
from tests.sim.policies.test_gpu_share import node, pod

CPU, MEMORY = "cpu", "memory"
TYPICAL = [
    {"requests": {"cpu": "1", "memory": "1Gi"}, "share": 0.5},
    {"requests": {"cpu": "5", "alibabacloud.com/gpu-milli": 1000}, "share": 0.25},
    {"requests": {"memory": "64Gi"}, "share": 0.25},
]


def over_time(history: mo.History, name: str, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    table = evaluate(history, {name: options})[name].over_time
    assert table is not None
    return {column: np.asarray(values) for column, values in table.columns.items()}


def percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


# ---- twins -------------------------------------------------------------------------------------------------


def fits(state: State, name: str, needs: dict[str, int]) -> bool:
    is_open = not state.nodes[name].spec.unschedulable  # type: ignore[attr-defined]
    return is_open and all(state.free(name, one) >= need for one, need in (needs | {"pods": 1}).items())


def units(requests: dict[str, Any]) -> dict[str, int]:
    made = pod("x", 0)
    made["spec"]["containers"][0]["resources"]["requests"] = {key: str(one) for key, one in requests.items()}
    return requests_of(decode_object(made))  # type: ignore[arg-type]


def fragmented(state: State, resource: str) -> tuple[float, float]:
    """The fragmented and the stranded amount."""
    out = [0.0, 0.0]
    for typical in TYPICAL:
        needs, share = units(typical["requests"]), typical["share"]  # type: ignore[arg-type]
        for name, one in state.nodes.items():
            free = state.free(name, resource)
            if not fits(state, name, needs):
                out[0] += share * free  # type: ignore[operator]
                is_open = not one.spec.unschedulable  # type: ignore[attr-defined]
                if is_open and 0 < needs.get(resource, 0) <= free:
                    out[1] += share * free  # type: ignore[operator]
    return out[0], out[1]


@settings(deadline=None, max_examples=60)
@given(timelines())
def test_fragmentation_is_that_of_each_moment(timeline: Timeline) -> None:
    history = mo.replay(timeline, checkpoints=0)
    found = over_time(history, "fragmentation", pods=TYPICAL)
    assert found["time"].tolist() == moments(history)
    for at, time in enumerate(found["time"]):
        state = state_at(history, time)
        for resource in (CPU, MEMORY):
            room = sum(allocatable_of(resource, one) for one in state.nodes.values())  # type: ignore[arg-type]
            expected = [percent(part, room) for part in fragmented(state, resource)]
            kinds = [found[f"{kind}_{resource}"][at] for kind in ("fragmented", "stranded")]
            assert kinds == pytest.approx(expected)


@settings(deadline=None, max_examples=60)
@given(timelines())
def test_the_largest_pod_is_that_of_each_moment(timeline: Timeline) -> None:
    history = mo.replay(timeline, checkpoints=0)
    found = over_time(history, "largest_pod", shape={"cpu": "500m", "memory": "3Gi"})
    assert found["time"].tolist() == moments(history)
    for at, time in enumerate(found["time"]):
        state = state_at(history, time)
        sizes = [
            min(state.free(name, CPU) / 500, state.free(name, MEMORY) / (3 << 30))
            for name in state.nodes
            if fits(state, name, {})
        ]
        assert found["largest_pod"][at] == max(sizes, default=0)


@settings(deadline=None, max_examples=60)
@given(timelines())
def test_spread_cost_and_utilization_are_those_of_each_moment(timeline: Timeline) -> None:
    history = mo.replay(timeline, checkpoints=0)
    prices = {"type-a": 1.5, "type-b": 0.25}
    skew, use = over_time(history, "spread"), over_time(history, "utilization")
    for at, time in enumerate(skew["time"]):
        state = state_at(history, time)
        counts: dict[str, int] = {}
        for name, one in state.nodes.items():
            zone = one.metadata.labels[ZONE]  # type: ignore[attr-defined]
            counts[zone] = counts.get(zone, 0) + len(state.pods.get(name, []))
        assert skew["spread_skew"][at] == max(counts.values(), default=0) - min(counts.values(), default=0)
        nodes = list(state.nodes.values())
        used = sum(requests_of(one).get(CPU, 0) for each in state.pods.values() for _, one in each)
        room = sum(allocatable_of(CPU, one) for one in nodes)  # type: ignore[arg-type]
        assert use["cpu_utilization"][at] == pytest.approx(percent(used, room))
    found = over_time(history, "cost", prices=prices)
    total = 0.0
    for time, until in zip(found["time"], [*found["time"][1:], history.end], strict=True):
        nodes = list(state_at(history, time).nodes.values())
        total += sum(prices[one.metadata.labels[TYPE]] for one in nodes) * (until - time) / 3600  # type: ignore[attr-defined]
    assert evaluate(history, {"cost": {"prices": prices}})["cost"].numbers["cost"] == pytest.approx(total)


@settings(deadline=None, max_examples=60)
@given(timelines())
def test_waits_and_evictions_are_those_of_the_rows(timeline: Timeline) -> None:
    history = mo.replay(timeline, checkpoints=0)
    rows = history.pods().to_dict()
    found = over_time(history, "pending", every=7)
    for at, start in enumerate(found["time"]):
        waits = sorted(
            bound - created
            for bound, created in zip(rows["bound"], rows["created"], strict=True)
            if start <= bound < start + 7
        )
        assert found["placed"][at] == len(waits)
        for name, percents in (("p50", 50), ("p90", 90), ("max", 100)):
            value = found[f"pending_{name}"][at]
            least = [
                one for one in waits if sum(other <= one for other in waits) >= percents / 100 * len(waits)
            ]
            assert value == least[0] if waits else math.isnan(value)
    assert sum(found["placed"]) == history.summary()["placed"]
    gone = over_time(history, "evictions")
    for name, cause in (("evictions", "evicted"), ("node_evictions", "node")):
        ends = [end for end, why in zip(rows["ended"], rows["cause"], strict=True) if why == cause]
        assert gone[name].tolist() == [sum(end <= time for end in ends) for time in gone["time"]]


# ---- one by one --------------------------------------------------------------------------------------------


def small() -> mo.History:
    timeline = Timeline(Cluster(nodes=[zoned("n", 0, "a")]))
    for at in range(3):
        timeline.create(10 * at, decode_object(pod(f"p{at}", 0, cpu="2")))
    timeline.measure(40, "end")
    return mo.replay(timeline)


def test_typical_pods_are_those_of_the_history() -> None:
    # One shape: 2 cpu. All of it fits while 2 of the 8 cpu are free.
    assert over_time(small(), "fragmentation")["fragmented_cpu"].tolist() == [0, 0, 0]
    timeline = Timeline(Cluster(nodes=[zoned("n", 0, "a")]))
    for at in range(3):
        timeline.create(10 * at, decode_object(pod(f"p{at}", 0, cpu="3")))
    # 5, 2 and 2 cpu are free.
    assert over_time(mo.replay(timeline), "fragmentation")["fragmented_cpu"].tolist() == [0, 25]


def test_pods_of_a_selector_are_counted() -> None:
    timeline = Timeline(Cluster(nodes=[zoned("n", 0, "a"), zoned("m", 0, "b")]))
    web = pod("web", 0)
    web["metadata"]["labels"] = {"app": "web"}
    web["spec"]["nodeSelector"] = {ZONE: "a"}
    timeline.create(5, decode_object(web))
    timeline.create(6, decode_object(web), "web-2")
    timeline.create(7, decode_object(pod("other", 0)))
    found = evaluate(mo.replay(timeline), {"spread": {"selector": "app=web"}})["spread"]
    assert found.over_time is not None
    assert found.over_time.to_dict()["spread_skew"][:3] == [0, 1, 2]
    assert found.numbers["spread_skew_max"] == 2


def test_a_domain_without_nodes_does_not_count() -> None:
    timeline = Timeline(Cluster(nodes=[zoned("n", 0, "a"), zoned("m", 0, "b")]))
    timeline.create(5, decode_object(pod("x", 0)))
    timeline.cordon(6, "n")
    timeline.leave(7, "m")
    timeline.create(8, decode_object(pod("y", 0)))
    timeline.uncordon(9, "n")
    timeline.measure(30, "end")
    found = over_time(mo.replay(timeline), "spread")
    assert found["spread_skew"][-1] == 0


def test_nodes_without_a_price_are_an_error() -> None:
    with pytest.raises(InputError, match=f'measures.cost.prices: node n: no price for {TYPE}="type-a"'):
        evaluate(small(), {"cost": {"prices": {"type-b": 1}}})
    assert evaluate(small(), {"cost": {"prices": {}, "default": 9}})["cost"].numbers == pytest.approx(
        {"cost": 0.1, "cost_per_hour": 9}
    )


def test_the_mean_cost_begins_with_the_first_node() -> None:
    timeline = mo.Timeline()
    timeline.create(3600, small().timeline.cluster.nodes[0])
    timeline.measure(7200, "end")
    found = evaluate(mo.replay(timeline), {"cost": {"prices": {}, "default": 1}})["cost"]
    assert found.numbers == pytest.approx({"cost": 1, "cost_per_hour": 1})


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("nothing", 'measures.nothing: no measure "nothing"'),
        ({"cost": {}}, "measures.cost.prices: node n: no price for"),
        ({"pending": {"each": 1}}, "measures.pending.each: unknown option: one of every"),
        ({"pending": {"every": 0}}, "must be more than 0 seconds"),
        ({"largest_pod": {"shape": {"cpu": "x"}}}, "measures.largest_pod.cpu: "),
        ({"largest_pod": {"shape": {}}}, "must request something"),
        ({"fragmentation": {"pods": [{"requests": {}}]}}, "must have requests, and a share"),
        ({"cost": {"prices": {"a": -1}}}, "must be a price of at least 0"),
        ({"cost": {"prices": {}}, "pending": {}}, "a measure has one name, not 2"),
        (["pending", {"pending": {"every": 1}}], "measures.pending: asked for twice"),
        ("moorage.sim.measures:nothing", "measures.moorage.sim.measures:nothing: module"),
    ],
)
def test_a_wrong_request_is_an_error(request_: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(small(), *(request_ if isinstance(request_, list) else [request_]))


# ---- own measures ------------------------------------------------------------------------------------------


def waiting(history: mo.History, least: float = 0) -> dict[str, float]:
    """A measure of a module: pods that waited longer."""
    pods = history.pod_columns
    return {"waiting": float((pods["bound"] - pods["created"] > least).sum())}


@pytest.fixture
def doubled() -> Any:
    """A registered measure over columns."""

    @measure("doubled")
    def twice(history: mo.History, by: float = 2) -> mo.table.Table:  # type: ignore[name-defined]
        _, time, _, (used,), _ = history.usage_levels(["cpu"])
        from moorage.table import Table

        return Table({"time": time, "doubled": by * used})

    yield twice
    del MEASURES["doubled"]


def test_own_measures_are_used_by_name(doubled: Any) -> None:
    found = evaluate(small(), "doubled", {f"{__name__}:waiting": {"least": -1}})
    assert found["doubled"].numbers == {"doubled": (4000 * 10 + 8000 * 10 + 12000 * 20) / 40}
    assert found[f"{__name__}:waiting"].numbers == {"waiting": 3}
    with pytest.raises(InputError, match="the name is taken"):
        measure("doubled")(waiting)


def test_a_scenario_names_its_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], doubled: Any
) -> None:
    path, again = tmp_path / "s.yaml", tmp_path / "again.yaml"
    path.write_text(f"""
apiVersion: replay.moorage.dev/v1
kind: Scenario
spec:
  events:
  - {{time: 0, join: {node("n", 0)!r}}}
  - {{time: 1, create: {pod("large", 10**9)!r}}}
  - {{time: 10, measure: end}}
  measures: [utilization, {{doubled: {{by: 3}}}}]
""")
    Timeline.read(path).write(again)
    from moorage.cli import main

    for file in (path, again):
        assert main(["replay", str(file), "-o", "csv"]) == 0
        assert "doubled,0" in capsys.readouterr().out.splitlines()
        assert main(["replay", str(file), "--show", "measures", "-o", "csv"]) == 0
        assert "0,cpu_utilization,0" in capsys.readouterr().out.splitlines()
    cost = "{cost: {prices: {}, default: 36}}"
    assert main(["replay", str(path), "--measure", cost, "--measure", "gpu_allocation", "-o", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "cost,0.1" in lines
    assert "doubled,0" not in lines


def test_a_sweep_has_measures_with_options() -> None:
    from moorage.sim.sweep import sweep

    data = Path(__file__).parents[2] / "data/openb"
    found = sweep(
        {
            "apiVersion": "sweep.moorage.dev/v1",
            "kind": "Sweep",
            "spec": {
                "timelines": {"t": {"files": ["nodes.csv", "pods.csv"], "format": "openb"}},
                "seeds": [1],
                "measures": [
                    {"cost": {"prices": {}, "default": 1}},
                    {"gpu_fragmentation": {"pods": "$typicalPods"}},
                    f"{__name__}:waiting",
                ],
            },
        },
        data=data,
        executor="serial",
    )
    (run,) = found.to_dict()["runs"]
    assert run["measures"]["cost_per_hour"] == 31
    assert run["measures"]["waiting"] == 2  # never bound
    assert 30 < run["measures"]["gpu_fragmentation"] < 35
