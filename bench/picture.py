"""Processor time per pod beside kube-scheduler's own code: `python -m bench.picture FOLDER` draws it.

Both get the same objects: 5,000 nodes with pods on them, and 500 pods that wait, all made of scheduler_perf's
templates. kube-scheduler's code runs in process (`tests/conformance/upstream`, mode timed), with its default
of 16 workers; its time is that of Pop, UpdateSnapshot, SchedulePod, AssumePod and Done. moorage's is that of
`Scheduler.run()`, which does more: it also binds each pod in a store and handles the event. Both times are
processor time of all threads, garbage collection included, and the least of some rounds, because other work
on the machine changes that little.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from bench.scale import pyplot
from bench.table import in_units

import moorage as mo

Json = dict[str, Any]
Clock = Callable[[], float]
Upstream = Callable[[Json], Mapping[str, Any]]

TEMPLATES = Path(__file__).parents[1] / "tests/data/scheduler_perf/templates"
RELEASE = "1.36"
ZONES = "topology.kubernetes.io/zone"
NODES, PODS, ROUNDS = 5000, 500, 3


@dataclass(frozen=True)
class Workload:
    """A workload of scheduler_perf, with fewer pods to place."""

    title: str
    waiting: str
    """Template of the pods that are timed; they are in the namespace sched-1."""
    bound: str
    """Template of the pods that are on the nodes before, in sched-0."""
    bound_per_node: float
    zones: int


WORKLOADS = (
    Workload("plain pods", "pod-default", "pod-default", 1, 3),
    Workload("spread over zones", "pod-with-topology-spreading", "pod-default", 1, 3),
    Workload("pod affinity", "pod-with-pod-affinity", "pod-with-pod-affinity", 1, 1),
    Workload("pod anti-affinity", "pod-with-pod-anti-affinity", "pod-with-pod-anti-affinity", 0.2, 3),
)
THEMES = {
    "light": {"text": "#1f2328", "ours": "#1a7f37", "theirs": "#8c959f"},
    "dark": {"text": "#e6edf3", "ours": "#3fb950", "theirs": "#7d8590"},
}


@dataclass(frozen=True)
class Cost:
    """Seconds of a processor per pod."""

    title: str
    ours: float
    theirs: float


# ---- objects --------------------------------------------------------------------------------------------


def objects(workload: Workload, nodes: int, pods: int) -> list[Json]:
    """Nodes, the pods on them, and those that wait."""
    return [*_nodes(workload, nodes), *_bound(workload, nodes), *_waiting(workload, pods)]


def _template(name: str) -> Json:
    made: Json = yaml.safe_load((TEMPLATES / f"{name}.yaml").read_text(encoding="utf-8"))
    return made


def _nodes(workload: Workload, count: int) -> Iterator[Json]:
    status = _template("node-default")["status"]
    status["allocatable"] = status["capacity"]
    for at in range(count):
        labels = {"kubernetes.io/hostname": f"node-{at}", ZONES: f"zone-{at % workload.zones}"}
        meta = {"name": f"node-{at}", "labels": labels}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def _pod(template: Json, name: str, namespace: str) -> Json:
    pod = copy.deepcopy(template)
    meta = {"name": name, "namespace": namespace, "labels": template["metadata"].get("labels", {})}
    return pod | {"metadata": meta}


def _bound(workload: Workload, nodes: int) -> Iterator[Json]:
    template = _template(workload.bound)
    for at in range(int(nodes * workload.bound_per_node)):
        pod = _pod(template, f"bound-{at}", "sched-0")
        pod["spec"] |= {"nodeName": f"node-{at}"}
        yield pod


def _waiting(workload: Workload, count: int) -> Iterator[Json]:
    template = _template(workload.waiting)
    for at in range(count):
        yield _pod(template, f"waiting-{at}", "sched-1")


# ---- measuring ------------------------------------------------------------------------------------------


def costs(upstream: Upstream, nodes: int, pods: int, rounds: int, clock: Clock) -> Iterator[Cost]:
    """Both schedulers in turn on each workload; all pods must find a node."""
    for workload in WORKLOADS:
        made = objects(workload, nodes, pods)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_ours(mo.Scheduler(mo.load(made), kubernetes_version=RELEASE), pods, clock))
            theirs.append(_theirs(upstream, made, pods))
        yield Cost(workload.title, min(ours) / pods, min(theirs) / pods)


def _ours(scheduler: mo.Scheduler, pods: int, clock: Clock) -> float:
    began = clock()
    result = scheduler.run()
    seconds = clock() - began
    _check("moorage", len(result.placements), pods)
    return seconds


def _theirs(upstream: Upstream, made: Sequence[Json], pods: int) -> float:
    steps: list[Json] = []
    result = upstream({"name": "timed", "mode": "timed", "objects": made, "steps": steps})
    _check("kube-scheduler", result["placed"], pods)
    seconds: float = result["seconds"]
    return seconds


def _check(who: str, placed: int, pods: int) -> None:
    if placed != pods:
        raise SystemExit(f"bench.picture: {who} placed {placed} of {pods} pods")


# ---- drawing --------------------------------------------------------------------------------------------


def draw(found: Sequence[Cost], note: str, path: Path, theme: str, plot: Any) -> None:
    """Bars on a logarithmic axis, with the figures at their ends."""
    colours = THEMES[theme]
    figure, axes = plot.subplots(figsize=(8, 3.4), layout="constrained")
    for at, cost in enumerate(found):
        for seconds, side, shift in ((cost.theirs, "theirs", -0.19), (cost.ours, "ours", 0.19)):
            axes.barh(at + shift, seconds * 1e6, height=0.34, color=colours[side])
            label = in_units(seconds)
            if side == "ours":
                label += f"   ({float(f'{cost.theirs / seconds:.2g}'):,.0f} times less)"
            axes.text(seconds * 1.12e6, at + shift, label, va="center", color=colours["text"], fontsize=9)
    axes.set_yticks(range(len(found)), [cost.title for cost in found], color=colours["text"], fontsize=10)
    axes.invert_yaxis()
    axes.set_xscale("log")
    end = max(cost.theirs for cost in found) * 4e6
    axes.set_xlim(0.5, end)
    ticks = [10**power for power in range(int(math.log10(end)) + 1)]
    axes.set_xticks(ticks, [in_units(tick / 1e6) for tick in ticks], color=colours["text"], fontsize=9)
    axes.grid(axis="x", color=colours["theirs"], alpha=0.35, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="both", which="both", length=0)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(colours["theirs"])
    bars = [plot.Rectangle((0, 0), 1, 1, color=colours[side]) for side in ("theirs", "ours")]
    names = [f"kube-scheduler {RELEASE}", "moorage"]
    figure.legend(bars, names, loc="outside upper right", ncols=2, frameon=False, labelcolor=colours["text"])
    figure.suptitle("Processor time per pod", x=0.01, ha="left", fontsize=11, color=colours["text"])
    figure.supxlabel(note, fontsize=8, color=colours["text"])
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plot.close(figure)


def note(nodes: int, pods: int, rounds: int) -> str:
    """What was measured, on what."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return (
        f"{pods:,} pods on {nodes:,} nodes, least of {rounds} rounds. The scale is logarithmic.\n"
        f"Both in the same run on the same machine ({machine}).\n"
        "kube-scheduler's code: queue, decision and cache, in process. moorage: binding and events, too."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.picture", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="for cost-light.svg, cost-dark.svg and cost.json")
    parser.add_argument("--again", action="store_true", help="draw what cost.json has, without measuring")
    parser.add_argument(
        "--program", type=Path, help="the Go program of kube-scheduler's code, if it is built"
    )
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    plot, file = pyplot(), options.folder / "cost.json"
    if not options.again:
        file.write_text(json.dumps(_measured(options), indent=1) + "\n")
    measured = json.loads(file.read_text())
    for theme in THEMES:
        bars = [Cost(**cost) for cost in measured["costs"]]
        draw(bars, measured["note"], options.folder / f"cost-{theme}.svg", theme, plot)


def _measured(options: argparse.Namespace) -> Json:
    """Seconds of each workload, and what was measured on what."""
    from tests.conformance.upstream import decisions

    sizes = options.nodes, options.pods, options.rounds
    with tempfile.TemporaryDirectory() as folder:
        program = options.program or decisions.build(Path(folder), RELEASE)
        found = list(costs(lambda one: decisions.upstream(program, [one])[0], *sizes, time.process_time))
    for cost in found:
        print(f"{cost.title:20}{in_units(cost.theirs):>10}{in_units(cost.ours):>10}")
    return {"note": note(*sizes), "costs": [asdict(cost) for cost in found]}


if __name__ == "__main__":
    main()
