"""Runs the campaign: `python -m tests.campaign [--short] [--jobs a,b] [--seed N] [--scale X]`.

Each job is a process with a seed and a size, writes its figures as JSON, and fails if it finds anything. All
figures go to build/campaign/figures.json, and as a table to build/campaign/figures.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from building import variants

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build/campaign"
MACHINES = [
    "tests/cache", "tests/core", "tests/queue", "tests/store", "tests/volume", "tests/scheduler",
    "tests/multi",
]  # fmt: skip
TARGETS = [
    "decode_json", "load_json", "load_yaml", "yaml", "archive", "quantity", "label_selector",
    "field_selector", "duration", "cel", "go_template", "scheduler_perf", "configuration", "extender",
    "patch", "wire", "sweep", "trace", "native_plugin",
]  # fmt: skip
VECTORS = "tests/conformance/data"
MODES = [[], ["--batch"], ["--candidates", "off"], ["--threads", "2"]]


class Size(NamedTuple):
    """How much a campaign does."""

    operations: int
    sanitized: int
    budget: int
    soak_seconds: float
    fuzz_seconds: float
    every: int
    mutants: int
    scenarios: int


SHORT = Size(
    operations=10_000_000,
    sanitized=500_000,
    budget=1,
    soak_seconds=10,
    fuzz_seconds=8,
    every=100,
    mutants=40,
    scenarios=25,
)
LONG = Size(
    operations=1_000_000_000,
    sanitized=20_000_000,
    budget=200,
    soak_seconds=600,
    fuzz_seconds=900,
    every=10,
    mutants=500,
    scenarios=2_000,
)
Figures = dict[str, Any]


class JobError(Exception):
    """A job that found something, or did not end as it should."""


def call(*command: str, environment: dict[str, str] | None = None) -> str:
    """Run a command in the root; what it says, unless it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | (environment or {}), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise JobError(f"{' '.join(command)}: {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def python(*arguments: str, environment: dict[str, str] | None = None) -> str:
    return call(sys.executable, *arguments, environment=environment)


def written(name: str) -> Figures:
    """The figures that a process wrote."""
    return json.loads((OUT / f"{name}.json").read_text())  # type: ignore[no-any-return]


# ---- jobs --------------------------------------------------------------------------------------------------


def native(size: Size, seed: int) -> Figures:
    """Operations of the compiled state, compared with recomputation."""
    folder = str(OUT / "native")
    python("-m", "tests.campaign.native.build_driver", folder)
    report = str(OUT / "native.json")
    numbers = ["--operations", str(size.operations), "--seed", str(seed)]
    python("-m", "tests.campaign.native.drive", folder, report, *numbers)
    return written("native")


def sanitized(size: Size, seed: int) -> Figures:
    """The same under AddressSanitizer and UndefinedBehaviorSanitizer."""
    variants.build("asan")
    folder = str(OUT / "sanitized")
    built = {"MOORAGE_VARIANT": "asan"}
    python("-m", "tests.campaign.native.build_driver", folder, environment=built)
    environment = variants.environment("asan")
    # Two frames of each allocation: to record whole stacks takes a tenth of the time.
    environment["ASAN_OPTIONS"] += ":malloc_context_size=2"
    numbers = ["--operations", str(size.sanitized), "--seed", str(seed)]
    report = str(OUT / "sanitized.json")
    python("-m", "tests.campaign.native.drive", folder, report, *numbers, environment=environment)
    return written("sanitized")


def machines(size: Size, seed: int) -> Figures:
    """Steps of the state machines over the Python API."""
    report = OUT / "machines.json"
    environment = {"MOORAGE_BUDGET": str(size.budget), "MOORAGE_STEPS": str(report)}
    options = ["-q", "-p", "no:benchmark", "-p", "no:xdist", "-p", "tests.campaign.budget"]
    options += [f"--hypothesis-seed={seed}", "-k", "Test", *MACHINES]
    python("-m", "pytest", *options, environment=environment)
    steps = written("machines")
    return {"steps": sum(steps.values())} | steps


def soak(size: Size, seed: int) -> Figures:
    """Rounds of eight threads beside one another."""
    seconds = ["--seconds", str(size.soak_seconds)]
    python("-m", "tests.campaign.soak", str(OUT / "soak.json"), *seconds, "--seed", str(seed))
    rounds = written("soak")["rounds"]
    return {"rounds": sum(rounds.values())} | rounds


def fuzz(size: Size, seed: int) -> Figures:
    """Executions of each fuzz target."""
    (OUT / "fuzz").mkdir(parents=True, exist_ok=True)
    figures: Figures = {"executions": 0}
    found = {}
    for target in TARGETS:
        report = OUT / "fuzz" / f"{target}.json"
        numbers = ["--seconds", str(size.fuzz_seconds), "--seed", str(seed)]
        python("-m", "tests.campaign.fuzz.run", target, str(report), *numbers)
        told = json.loads(report.read_text())
        figures["executions"] += told["executions"]
        figures[target] = told["executions"]
        found |= {f"{target}: {place}": one for place, one in told["findings"].items()}
    if found:
        raise JobError(json.dumps(found, indent=1))
    return figures


def allocations(size: Size, seed: int) -> Figures:
    """Outcomes of failing allocations of Python."""
    python("-m", "tests.campaign.allocations", str(OUT / "allocations.json"), "--every", str(size.every))
    told = written("allocations")
    wrong = {name: one["wrong"] for name, one in told.items() if one["wrong"]}
    if wrong:
        raise JobError(json.dumps(wrong, indent=1))
    return {name: one["outcomes"] for name, one in told.items()}


def differential(size: Size, seed: int) -> Figures:
    """The visible vectors, in each mode of the engine."""
    return {
        " ".join(mode) or "default": python("-m", "tests.conformance", *mode, VECTORS).splitlines()[-1]
        for mode in MODES
    }


def crossed(size: Size, seed: int) -> Figures:
    """Scenarios bred from the vectors: pods together and alone, beside forks and rollbacks."""
    numbers = ["--scenarios", str(size.scenarios), "--seed", str(seed)]
    python("-m", "tests.campaign.crossed", str(OUT / "crossed.json"), *numbers)
    told = written("crossed")
    if told["different"]:
        raise JobError(json.dumps(told["different"], indent=1))
    return told["done"]  # type: ignore[no-any-return]


def mutants(size: Size, seed: int) -> Figures:
    """Mutants that the tests of their room kill; of the queue alone, whose tests are soon learned, if few."""
    report = OUT / "mutants.json"
    report.unlink(missing_ok=True)
    numbers = ["--sample", str(size.mutants), "--seed", str(seed)]
    rooms = ["--rooms", "python/moorage/engine/queue"] if size.mutants < 100 else []
    python("-m", "tests.campaign.mutants", str(report), *numbers, *rooms)
    told = written("mutants")
    survived = sum(one["reason"] is None for one in told["survivors"].values())
    figures = {"mutants": told["mutants"], "tested": told["tested"], "survived": survived}
    return figures | told["counts"]


Job = Callable[[Size, int], Figures]
JOBS: dict[str, Job] = {
    one.__name__: one
    for one in (native, sanitized, machines, soak, fuzz, allocations, differential, crossed, mutants)
}


# ---- the runner --------------------------------------------------------------------------------------------


def table(results: dict[str, Figures]) -> str:
    """The figures as Markdown."""
    lines = ["| job | figure | value |", "|---|---|---:|"]
    for job, figures in results.items():
        for name, value in figures.items():
            shown = f"{value:,}" if isinstance(value, int) else str(value).replace("|", "/").splitlines()[0]
            lines.append(f"| {job} | {name} | {shown} |")
    return "\n".join(lines) + "\n"


def scaled(size: Size, factor: float) -> Size:
    """A size whose amounts are so many times larger; which allocations fail stays."""
    numbers = {
        name: value if name == "every" else type(value)(value * factor)
        for name, value in size._asdict().items()
    }
    return Size(**{name: max(value, 1) for name, value in numbers.items()})


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.campaign")
    parser.add_argument("--short", action="store_true", help="ten minutes instead of hours")
    parser.add_argument("--jobs", default="", help=f"some of {','.join(JOBS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for all amounts")
    options = parser.parse_args()
    size = scaled(SHORT if options.short else LONG, options.scale)
    OUT.mkdir(parents=True, exist_ok=True)
    results: dict[str, Figures] = {}
    for name in options.jobs.split(",") if options.jobs else JOBS:
        begun = time.perf_counter()
        try:
            figures, state = JOBS[name](size, options.seed), "ok"
        except JobError as failure:
            figures, state = {"failure": str(failure)}, "FAILED"
            print(failure, file=sys.stderr)
        seconds = round(time.perf_counter() - begun)
        results[name] = {"result": state, "seconds": seconds, "seed": options.seed} | figures
        print(f"{name}: {state}, {seconds} s", flush=True)
        (OUT / "figures.json").write_text(json.dumps(results, indent=1))
        (OUT / "figures.md").write_text(table(results))
    return int(any(one["result"] != "ok" for one in results.values()))


if __name__ == "__main__":
    sys.exit(main())
