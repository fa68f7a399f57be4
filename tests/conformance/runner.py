"""Checks vectors: one scenario passes or fails as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from moorage.errors import MoorageError

from .compare import OPTIONAL, differences, mentioned, without
from .configurations import check
from .replay import replay
from .vectors import MalformedError, decode, files, lines

Json = dict[str, Any]
Replay = Callable[[Json], Iterator[Json]]

SHOWN = 5  # differences shown per scenario


def failures(line: bytes, replayed: Replay = replay) -> list[str]:
    """What is wrong with one line, or nothing: the differences of the first part that differs."""
    name = "?"
    try:
        vector = decode(line)
        name = str(vector.get("scenario", {}).get("name") or vector.get("name", name))
        if "yaml" in vector:
            return [f"{name}: {one}" for one in islice(check(vector), SHOWN)]
        if vector.keys() != {"scenario", "result"}:
            return [f"{name}: malformed line: fields {', '.join(sorted(vector))}"]
        return [f"{name}: {one}" for one in _compare(vector, replayed)]
    except (MoorageError, MalformedError) as error:
        return [f"{name}: {error}"]
    # A scenario that breaks the engine, or has another form than expected, fails; the others go on.
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {error}"]


def _compare(vector: Json, replayed: Replay) -> list[str]:
    """The first few differences in the first part (the header, or a step) that differs."""
    scenario, expected = vector["scenario"], vector["result"]
    if len(expected["steps"]) != len(scenario["steps"]):
        return [f"expected {len(scenario['steps'])} steps, the result has {len(expected['steps'])}"]
    expected_header = {key: value for key, value in expected.items() if key != "steps"}
    produced = replayed(scenario)
    header = next(produced)
    left_out = OPTIONAL - mentioned(header)
    for index, one in enumerate([expected_header, *expected["steps"]]):
        other = next(produced) if index else header
        found = differences(without(one, left_out), other)
        where = f"step {index - 1} ({other['op']}): " if index else ""
        if shown := [where + one for one in islice(found, SHOWN)]:
            return shown
    return []


def run(paths: list[str]) -> int:
    """Check all scenarios of the files, report, and return the exit code."""
    passed = failed = 0
    for path in files(paths):
        try:
            for number, line in enumerate(lines(path), 1):
                wrong = failures(line)
                for one in wrong:
                    print(f"{path.name}:{number}: {one}", flush=True)
                passed, failed = passed + (not wrong), failed + bool(wrong)
        except MalformedError as error:
            print(f"{path.name}: {error}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1
