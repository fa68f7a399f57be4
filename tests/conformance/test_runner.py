"""The runner itself: what it reads, counts and prints, on vectors of its own."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from runpy import run_module
from typing import Any

import pytest

from tests.conformance import runner
from tests.conformance.compare import differences
from tests.conformance.replay import given, replay
from tests.conformance.runner import failures, run
from tests.conformance.vectors import MalformedError, decode
from tests.conformance.world import STEP_KEYS, check_keys

Json = dict[str, Any]


def node(name: str, zone: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}


def vector(**changes: Any) -> Json:
    """A scenario of mode order that passes."""
    steps = [
        {"op": "addNode", "node": node("c", "z1")},
        {"op": "removeNode", "name": "a", "snapshot": False},
        {"op": "updateNode", "node": node("b", "z2")},
    ]
    scenario = {"name": "small", "family": "node_order", "seed": 1, "mode": "order"}
    result = {
        "name": "small",
        "mode": "order",
        "steps": [
            {"op": "addNode", "order": ["a", "b", "c"]},
            {"op": "removeNode"},
            {"op": "updateNode", "order": ["c", "b"]},
        ],
    }
    objects = [node("a", "z1"), node("b", "z2")]
    return {"scenario": scenario | {"objects": objects, "steps": steps} | changes, "result": result}


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def test_a_scenario_passes() -> None:
    assert failures(line(vector())) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "guess"}, "small: unknown mode 'guess'"),
        ({"extra": 1}, "small: unknown fields in the scenario: extra"),
        ({"config": {"featureGates": {"A": True}}}, "small: ValueError: unrecognized feature gate: A"),
        ({"steps": []}, "small: expected 0 steps, the result has 3"),
        ({"steps": [{"op": "jump"}] * 3}, "small: unknown step 'jump'"),
        ({"steps": [{"op": "removeNode"}] * 3}, "small: fields of step removeNode: op"),
        ({"steps": [{"op": "removeNode", "name": "x"}] * 3}, 'small: nodes "x" not found'),
        ({"name": "other"}, "other: name: expected 'small', got 'other'"),
        (
            {"objects": [node("b", "z2"), node("a", "z1")]},
            "small: step 0 (addNode): order[0]: expected 'a', got 'b'",
        ),
    ],
)
def test_a_scenario_fails(changes: Json, message: str) -> None:
    assert failures(line(vector(**changes)))[0] == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\n", "?: malformed line: Expecting value"),
        (b"[1]\n", "?: malformed line: not an object"),
        (b'{"scenario": {"name": "x"}}\n', "x: malformed line: fields scenario"),
        (b'{"scenario": {"name": "x"}, "result": {}, "more": 1}\n', "x: malformed line: fields more, result"),
        (b'{"scenario": {"name": "x"}, "result": {}}\n', "x: KeyError: 'steps'"),
        (b'{"scenario": 1, "result": {}}\n', "?: AttributeError"),
        (b'{"a": 1, "a": 1}\n', "?: malformed line: duplicate key"),
        (b'{"a": NaN}\n', "?: malformed line: NaN"),
        (b"[" * 200_000 + b"\n", "?: malformed line: "),
        (b"\xff\xfe\n", "?: malformed line: "),
        (b'{"name": "conf", "yaml": 1, "ok": true}\n', "conf: name and yaml must be strings"),
        (b'{"yaml": "", "ok": false}\n', "?: name and yaml must be strings"),
        (b'{"name": "conf", "yaml": "", "stage": "load"}\n', "conf: KeyError: 'error'"),
    ],
)
def test_a_malformed_line_fails(text: bytes, message: str) -> None:
    (wrong,) = failures(text)
    assert wrong.startswith(message)


def test_few_differences_are_shown_and_only_of_one_step() -> None:
    value = vector()
    value["result"]["steps"][0]["order"] = ["x", "y", "z"]
    value["result"]["steps"][0] |= {f"extra{index}": 1 for index in range(9)}
    value["result"]["steps"][2] = {}
    wrong = failures(line(value))
    assert len(wrong) == runner.SHOWN
    assert all("step 0" in one for one in wrong)


def test_files_and_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = line(vector()), line(vector(mode="guess"))
    (tmp_path / "a.jsonl").write_bytes(good + good)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(good + bad))
    (tmp_path / "ignored.txt").write_bytes(b"?")
    assert run([str(tmp_path / "a.jsonl")]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"
    assert run([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "b.jsonl.gz:2: small: unknown mode 'guess'",
        "3 passed, 1 failed",
    ]


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "no gzip", "corrupt"])
def test_a_damaged_file_fails(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl.gz"
    whole = gzip.compress(line(vector()))
    if damage != "missing":
        damaged = {"empty": gzip.compress(b""), "truncated": whole[:-9], "no gzip": b"{}"}
        path.write_bytes(damaged.get(damage, whole[:20] + b"\xff" * 20))
    assert run([str(path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("passed, 1 failed")


def test_no_scenario_at_all_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "0 passed, 0 failed\n"


def test_as_a_command(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line(vector()))
    command = [sys.executable, "-m", "tests.conformance", str(tmp_path / "a.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (done.stdout, done.returncode) == ("1 passed, 0 failed\n", 0), done.stderr


def test_a_command_without_files_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["conformance"])
    with pytest.raises(SystemExit, match="2"):
        run_module("tests.conformance", run_name="__main__")
    assert "the following arguments are required: FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0, False),
        ("1", 1),
        (None, 0),
        ([], {}),
        ([1], [1, 1]),
        ([1, 2], [2, 1]),
        ({"a": 1}, {}),
    ],
)
def test_nearly_the_same_is_different(one: Any, other: Any) -> None:
    assert list(differences({"x": one}, {"x": other}))
    assert list(differences({"x": other}, {"x": one}))
    assert not list(differences({"x": one}, {"x": one}))


def test_long_values_are_shortened() -> None:
    (text,) = differences({"x": "a" * 1000}, {"x": "b" * 1000})
    assert len(text) < 400


@pytest.mark.parametrize("op", STEP_KEYS)
def test_steps_have_exactly_their_fields(op: str) -> None:
    step = {"op": op} | dict.fromkeys(STEP_KEYS[op])
    check_keys(step)
    for wrong in ({**step, "more": 1}, {key: step[key] for key in list(step)[:-1]}):
        with pytest.raises(MalformedError):
            check_keys(wrong)


def test_empty_fields_are_left_out_but_zero_stays() -> None:
    assert given(a=None, b="", c=[], d={}, e=0, f=[0]) == {"e": 0, "f": [0]}


def test_decoding_is_strict() -> None:
    assert decode(b'{"a": [1, 2.5, null, true]}') == {"a": [1, 2.5, None, True]}
    with pytest.raises(MalformedError):
        decode(b'{"a": Infinity}')


def test_pods_that_were_never_placed_are_absent() -> None:
    """removePod and updatePod of an unknown pod do nothing; a removed pod is absent from then on."""
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"nodeName": "a"}}
    remove = {"op": "removePod", "namespace": "d", "name": "p", "snapshot": False}
    update = {"op": "updatePod", "pod": pod, "snapshot": False}
    add = {"op": "addPod", "pod": pod, "snapshot": False}
    value = vector(steps=[remove, update, add, update, remove, remove])
    assert [part.get("absent", False) for part in list(replay(value["scenario"]))[1:]] == [
        *(True, True, False),
        *(False, False, True),
    ]
