"""Kube-scheduler's code beside moorage: ``python -m tests.conformance.upstream [FOLDER]``.

Builds the Go program of this folder, breeds scenarios from the vectors of FOLDER (those of the repository if
none is given), has both decide, and prints where they differ. Where the Go program does not say the same
twice about the step that differs, upstream draws lots; the scenario is counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from moorage.kube.releases import DEFAULT, gates_of, release_named
from tests.conformance.compare import differences
from tests.conformance.configurations import check
from tests.conformance.extenders import served
from tests.conformance.modes import Mode
from tests.conformance.replay import replay
from tests.doors.kube import Effect
from tests.live.servers.build import MissingGoError, go_version

from .configuring import configurations, configured
from .crossing import DRA, FULL, GANG, SAMPLED, Json, crossed, of_release, scenarios, without_growing_requests
from .decisions import RELEASES, build, upstream
from .normal import normal, outcome
from .queueing import waiting

VECTORS = Path(__file__).parents[1] / "data"
AGAIN = 20
"""How often a scenario that differs is played again."""


class Difference(NamedTuple):
    """The first step that differs, and how."""

    step: int
    texts: list[str]


def first_difference(scenario: Json, theirs: Json) -> Difference | None:
    """Where moorage differs first; None if it does not."""
    if scenario["mode"] == "configuration":
        line = {key: scenario[key] for key in ("name", "yaml", "release")} | outcome(
            theirs, scenario["release"]
        )
        found = [f"{scenario['name']}: {one}" for one in check(line)]
        return Difference(0, found) if found else None
    ours = replay(scenario, Mode())
    next(ours)
    for at, expected in enumerate(theirs["steps"]):
        got = next(ours)
        if scenario["mode"] == "dra":
            got.pop("next", None)  # the program does not say it
        found = list(differences(normal(expected), normal(got)))
        if found:
            where = f"{scenario['name']}: step {at} ({expected['op']})"
            return Difference(at, [f"{where}: {one}" for one in found[:3]])
    return None


def certain_difference(scenario: Json, runs: list[Json]) -> Difference | None:
    """What remains of a difference when upstream is asked several times.

    Parameters
    ----------
    scenario : dict
    runs : list of dict
        What upstream says each time.

    Returns
    -------
    Difference or None
        To the runs that agree with moorage longest. None if they are few, or differ from one another in that
        step: upstream draws lots.
    """
    if scenario["mode"] == "configuration":
        return first_difference(scenario, runs[0])
    texts = [tuple(json.dumps(normal(step), sort_keys=True) for step in one["steps"]) for one in runs]
    found = []
    for text, one in dict(zip(texts, runs, strict=True)).items():
        difference = first_difference(scenario, one)
        if difference is None:
            return None
        found.append((difference, text))
    last, longest = max(found)
    alike = [text[last.step] for text in texts if text[: last.step] == longest[: last.step]]
    return last if len(alike) > 4 and len(set(alike)) == 1 else None


def bred(folder: Path, seed: int, count: int, release: str) -> Iterator[list[Json]]:
    """Scenarios of each kind, for a release."""
    full, dra, sampled, gang = (scenarios(folder, one) for one in (FULL, DRA, SAMPLED, GANG))
    groups = gates_of(release_named(release)).get("GenericWorkload")
    if groups is None or groups.effect is Effect.NOT_BUILT:
        gang = []
    for parents, others in ((full, ()), (dra, ()), (sampled, full), (gang, full)):
        made = map(without_growing_requests, crossed(parents, seed, count if parents else 0, others))
        yield [of_release(one, release) for one in made]
    for parents in (full, dra):
        made = map(without_growing_requests, waiting(parents, seed, count))
        yield [of_release(one, release) for one in made]
    yield [one | {"release": release} for one in configured(configurations(folder), seed, count)]


def compare(program: Path, made: list[Json], counts: dict[str, int]) -> None:
    """Have both decide, count, and print the differences."""
    with served(json.dumps(made).encode()) as text:
        given = json.loads(text)
        for scenario, theirs in zip(given, upstream(program, given), strict=True):
            counts["scenarios"] += 1
            counts["steps"] += len(theirs.get("steps", "1"))
            if first_difference(scenario, theirs) is None:
                continue
            found = certain_difference(scenario, upstream(program, [scenario] * AGAIN))
            counts["different" if found else "drawn by lot"] += 1
            print("\n".join(found.texts) + "\n" if found else "", end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.conformance.upstream")
    parser.add_argument("folder", type=Path, nargs="?", default=VECTORS)
    parser.add_argument("--release", choices=list(RELEASES), default=DEFAULT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="scenarios of each of the seven kinds")
    options = parser.parse_args()
    try:
        print(f"building with {go_version()}", file=sys.stderr)
    except MissingGoError:
        print("this needs Go 1.26 or later: https://go.dev/dl", file=sys.stderr)
        return 1
    counts = {"scenarios": 0, "steps": 0, "drawn by lot": 0, "different": 0}
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), options.release)
        for made in bred(options.folder, options.seed, options.count, options.release):
            compare(program, made, counts)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
