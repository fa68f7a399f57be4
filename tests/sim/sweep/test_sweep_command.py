"""moorage sweep."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from moorage.cli import main

SWEEP = """
apiVersion: sweep.moorage.dev/v1
kind: Sweep
spec:
  timelines:
    openb:
      files: [nodes.csv, pods.csv]
      format: openb
      options: {seed: $seed}
  configurations:
    default: {}
    adaptive: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}
  seeds: [1, 2]
"""
DATA = ["--data", "tests/data/openb", "--executor", "serial"]


pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options by which the replays of these tests run once."""
    return [*DATA, "--folder", str(tmp_path_factory.mktemp("kept"))]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    return str(path)


def test_a_table_of_means(file: str, kept: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", file, *kept]) == 0
    headline, note, _, heading, *rows = capsys.readouterr().out.splitlines()
    assert headline == "4 replays of 2 combinations, 12 measures; none differs between the configurations"
    assert note == "means of 2 replays, ± half the width of their 95 % confidence interval"
    assert heading.split() == ["MEASURE", "default", "adaptive"]
    assert "placed          208 ± 6  208 ± 6" in rows


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("markdown", ["| MEASURE | default | adaptive |", "| placed | 208 ± 6 | 208 ± 6 |"]),
        (
            "latex",
            [r"\begin{tabular}{lrr}", r"pending\_p50 & 0 & 0 \\", r"placed & 208 $\pm$ 6 & 208 $\pm$ 6 \\"],
        ),
        ("csv", ["configuration,timeline,change,seed,pending_p50,placed"]),
    ],
)
def test_some_measures(
    file: str, kept: list[str], form: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", file, *kept, "--measures", "pending_p50, placed", "-o", form]) == 0
    out = capsys.readouterr().out
    assert set(lines) <= set(out.splitlines())
    assert "dropped" not in out


def test_csv_has_the_runs(file: str, kept: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", file, *kept, "-o", "csv"]) == 0
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert [(row["configuration"], row["seed"]) for row in rows] == [
        ("default", "1"), ("default", "2"), ("adaptive", "1"), ("adaptive", "2"),
    ]  # fmt: skip
    assert rows[0]["placed"] == rows[2]["placed"]


def test_results_are_kept_and_the_output_is_the_same(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for _ in range(2):
        assert main(["sweep", file, *DATA, "--folder", str(tmp_path / "kept"), "-o", "json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert len(list((tmp_path / "kept/cells").iterdir())) == 4
    assert {run["measures"]["pods"] for run in json.loads(outputs[0])["runs"]} == {302.0}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none.yaml"], "none.yaml: "),
        (["examples/demo.yaml"], "must be "),
        (["examples/fgd.yaml", "--data", "tests"], "openb_node_list_gpu_node.csv"),
        (["examples/fgd.yaml", "--workers", "0"], "--workers"),
        (["examples/fgd.yaml", "--executor", "cluster"], "--executor"),
        (["FILE", "--histories"], "histories need a folder"),
        (
            ["FILE", "KEPT", "--measures", "plced"],
            '--measures: no replay has the measure "plced"; nearest: placed',
        ),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], text: str, file: str, kept: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"FILE": [file], "KEPT": kept}
    assert main(["sweep", *[word for one in arguments for word in words.get(one, [one])]]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    # without progress, which slow machines tell
    (said,) = [line for line in output.err.splitlines() if not line.startswith("replaying (")]
    assert text in said


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("  measures: [none]\n", 'sweep.yaml: cell default/openb/none/1: measures.none: no measure "none"'),
        ("  changes: {}\n", "sweep.yaml: spec.changes: must not be empty"),
        ("  replay: {tieBreak: zzz}\n", "sweep.yaml: spec.replay.tieBreak: "),
    ],
)
def test_errors_name_the_file(file: str, more: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(SWEEP + more)
    assert main(["sweep", file, *DATA]) == 2
    assert text in capsys.readouterr().err
