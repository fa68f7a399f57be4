"""``moorage simulate``: what its case (`tests/cases/cli/simulate.md`) cannot show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.cli import main
from moorage.errors import InputError
from tests.core.child import LIMIT

SHOP = ["-f", "examples/shop/cluster.yaml", "-f", "examples/shop/release/web.yaml"]


def simulate(*arguments: str) -> int:
    return main(["simulate", *arguments])


def test_a_synthetic_cluster_has_the_sizes_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--synthetic", "nodes=6,pods=9,zones=2", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    zones = [(zone["name"], zone["nodes"]) for zone in document["summary"]["zones"]]
    assert (len(document["pods"]), zones) == (9, [("zone-0", 3), ("zone-1", 3)])


def test_options_reach_the_scheduler_and_parity_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    made_up = ["--synthetic", "nodes=200,pods=300,zones=3", "-o", "csv"]
    options = {"": "", "heap": "--tie-break go-heap", "first": "--tie-break first"}
    options |= {"all": "--percentage-of-nodes-to-score 100", "random": "--tie-break random"}
    options |= {"other": "--tie-break random --seed 7"}
    shown = dict[str, str]()
    for name, text in options.items():
        assert simulate(*made_up, *text.split()) == 0
        shown[name] = capsys.readouterr().out
    assert shown.pop("heap") == shown[""]
    assert len(set(shown.values())) == len(shown)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            InputError("two\nlines", source="f.yaml", obj="Pod a/b", path="spec.x"),
            2,
            "error: f.yaml: Pod a/b: spec.x: two lines\n",
        ),
        (MemoryError(), 2, "error: out of memory\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_an_error_is_one_line(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(*files: str, **rest: object) -> None:
        raise error

    monkeypatch.setattr("moorage.kube.load", load)
    assert (simulate("-f", "f.yaml"), capsys.readouterr()) == (code, ("", text))


BOTH = """
import sys
from moorage.cli import main
sys.exit(main(["simulate", *sys.argv[1:]])
         or main(["simulate", "--synthetic", "nodes=40,pods=90", "-o", "json"])
         or main(["explain", "--all-pending", *sys.argv[1:], "-o", "json"]) - 1)
"""


def test_stdout_is_the_same_bytes_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = set()
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        command = [sys.executable, "-c", BOTH, *SHOP]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "moorage", "simulate", "--synthetic", "nodes=50,pods=4000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(LIMIT) == 0
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


def test_use_that_was_measured_before_a_run_is_not_shown_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    node = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": room}}
    usage = {"kind": "NodeMetrics", "metadata": {"name": "a"}, "usage": {"cpu": "1"}}
    (file := tmp_path / "in.json").write_text(json.dumps({"kind": "List", "items": [node, usage]}))
    for command, is_shown in (("nodes", True), ("simulate", False)):
        assert main([command, "-f", str(file), "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        (row,) = answer["items" if is_shown else "nodes"]
        assert ("use" in row) is is_shown
