"""Fuzzes one target with atheris: `python -m tests.campaign.fuzz.run TARGET REPORT [--seconds S] [--runs N]
[--seed N]`.

Python code of the package is instrumented, so that inputs that reach new branches are kept; where the code is
compiled, the twin that it is compared with is. A finding does not end the run: each place that fails is
reported once, with its shortest input. The report is JSON; its key `findings` is empty where all is well.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SEEDS = ROOT / "tests/data/fuzz"
SLOW = 3.0
"""Seconds of CPU after which an input counts as a finding."""


def seeds(target: str) -> list[bytes]:
    """The committed inputs of a target."""
    path = SEEDS / f"{target}.json"
    return [one.encode("latin-1") for one in json.loads(path.read_text())] if path.exists() else []


def place(error: BaseException) -> str:
    """Where an error is raised: its type, and the last two lines of the project."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "site-packages" not in one.filename]
    where = [f"{Path(one.filename).name}:{one.lineno}" for one in frames[-2:]]
    return f"{type(error).__name__} at {' < '.join(reversed(where))}"


class Fuzzed:
    """Runs a target, counts, and writes the report when the budget is used up."""

    def __init__(self, target: Any, options: argparse.Namespace) -> None:
        self.target, self.options = target, options
        self.count, self.started = 0, time.monotonic()
        self.findings: dict[str, dict[str, Any]] = {}

    def __call__(self, data: bytes) -> None:
        begun = time.process_time()
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                self.target(data)
        except (Exception, RecursionError) as error:
            self.note(place(error), data, str(error)[:300])
        if time.process_time() - begun > SLOW:
            self.note("slow", data, f"{time.process_time() - begun:.1f} s")
        self.count += 1
        spent = time.monotonic() - self.started
        if self.count >= self.options.runs or spent >= self.options.seconds:
            self.report(spent)
            os._exit(0)

    def note(self, place: str, data: bytes, message: str) -> None:
        held = self.findings.get(place)
        if held is None or len(data) < len(held["input"]):
            self.findings[place] = {"input": data.decode("latin-1"), "message": message}
            self.report(time.monotonic() - self.started)

    def report(self, spent: float) -> None:
        told = {
            "target": self.options.target,
            "seed": self.options.seed,
            "executions": self.count,
            "seconds": round(spent, 1),
            "inputs": len(list(self.corpus.iterdir())),
            "findings": self.findings,
        }
        Path(self.options.report).write_text(json.dumps(told, indent=1))

    @property
    def corpus(self) -> Path:
        return Path(self.options.corpus) / self.options.target


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("report")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", default=str(ROOT / "build/campaign/corpus"))
    options = parser.parse_args()
    import atheris

    with atheris.instrument_imports(include=["moorage", "tests.core.twins", "yaml"]):
        from tests.campaign.fuzz.targets import TARGETS
    fuzzed = Fuzzed(TARGETS[options.target], options)
    fuzzed.corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(options.target)):
        (fuzzed.corpus / f"seed-{number}").write_bytes(data)
    arguments = [
        f"-seed={options.seed}",
        "-max_len=4096",
        "-timeout=600",
        "-rss_limit_mb=4096",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *arguments, str(fuzzed.corpus)], fuzzed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
