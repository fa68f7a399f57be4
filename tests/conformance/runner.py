"""Checks vectors: one scenario passes or fails as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from moorage.errors import MoorageError

from .admission import check_admission, is_admission
from .autoscalers.cluster_autoscaler_mode import check as check_cluster_autoscaler
from .autoscalers.cluster_autoscaler_mode import is_cluster_autoscaler
from .clusters.cluster_mode import record_failures
from .compare import differences
from .configurations import check, check_gate, is_gate
from .extenders import served
from .karpenter.karpenter_check import check as check_karpenter
from .karpenter.karpenter_check import is_karpenter
from .karpenter.node_class_mode import check as check_node_class
from .karpenter.node_class_mode import is_node_class
from .kueue.kueue_mode import check as check_kueue
from .kueue.kueue_mode import is_kueue
from .modes import Mode
from .replay import BETWEEN, ONE_BY_ONE, replay
from .vectors import MalformedError, decode, files, is_record, lines

Json = dict[str, Any]
Replay = Callable[[Json, Mode], Iterator[Json]]

SHOWN = 5  # differences shown per scenario


def failures(line: bytes, how: Mode = ONE_BY_ONE, replayed: Replay = replay) -> list[str]:
    """What is wrong with one line, or nothing: the differences of the first part that differs."""
    with served(line) as text:
        return _failures(text, how, replayed)


def _failures(line: bytes, how: Mode, replayed: Replay) -> list[str]:
    name = "?"
    try:
        vector = decode(line)
        asked = vector.get("scenario") or vector.get("question") or {}
        name = str(asked.get("name") or vector.get("name", name))
        if is_kueue(vector):
            return [f"{name}: {one}" for one in check_kueue(vector, SHOWN)]
        if "yaml" in vector:
            return [f"{name}: {one}" for one in islice(check(vector), SHOWN)]
        if is_gate(vector):
            return [f"{name}: {one}" for one in check_gate(vector)]
        if is_cluster_autoscaler(vector):
            name = str(vector["scenario"].get("id", name))
            return [f"{name}: {one}" for one in check_cluster_autoscaler(vector, SHOWN)]
        if is_admission(vector):
            return [f"{name}: {one}" for one in check_admission(vector, SHOWN)]
        if is_karpenter(vector):
            return [f"{name}: {one}" for one in check_karpenter(vector, SHOWN)]
        if is_node_class(vector):
            return [f"{name}: {one}" for one in check_node_class(vector, SHOWN)]
        if vector.keys() != {"scenario", "result"}:
            return [f"{name}: malformed line: fields {', '.join(sorted(vector))}"]
        return [f"{name}: {one}" for one in _compare(vector, how, replayed)]
    except (MoorageError, MalformedError) as error:
        return [f"{name}: {error}"]
    # A scenario that breaks the engine, or has another form than expected, fails; the others go on.
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {error}"]


def _compare(vector: Json, how: Mode, replayed: Replay) -> list[str]:
    """The first few differences in the first part (the header, or a step) that differs."""
    scenario, expected = vector["scenario"], vector["result"]
    if len(expected["steps"]) != len(scenario["steps"]):
        return [f"expected {len(scenario['steps'])} steps, the result has {len(expected['steps'])}"]
    expected_header = {key: value for key, value in expected.items() if key != "steps"}
    if how.undone is not None:
        how.undone.begin(scenario["name"])
    produced = replayed(scenario, how)
    steps = [how.compared(step) for step in expected["steps"]]
    for index, one in enumerate([expected_header, *steps]):
        other = next(produced)
        if other.get("start") == BETWEEN:
            other["start"] = steps[index - 2].get("next")
        if scenario["mode"] == "dra" and "next" not in one:
            other.pop("next", None)  # older vectors of this mode do not tell it
        if other.get("next") == BETWEEN:
            other["next"] = steps[index].get("start")
        found = differences(one, other)
        where = f"step {index - 1} ({other['op']}): " if index else ""
        if shown := [where + one for one in islice(found, SHOWN)]:
            return shown
        if index and how.undone is not None:
            how.undone.after(index)
    next(produced, None)  # to its end
    return []


def run(paths: list[str], how: Mode = ONE_BY_ONE) -> int:
    """Check all scenarios of the files, report, and return the exit code."""
    passed = failed = 0
    for path in files(paths):
        if is_record(path):
            wrong = record_failures(path)
            for one in wrong:
                print(one, flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            continue
        try:
            for number, line in enumerate(lines(path), 1):
                wrong = failures(line, how)
                for one in wrong:
                    print(f"{path.name}:{number}: {one}", flush=True)
                passed, failed = passed + (not wrong), failed + bool(wrong)
        except MalformedError as error:
            print(f"{path.name}: {error}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1
