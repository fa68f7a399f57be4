"""``moorage config``: what `tests/cases/cli/config.md` cannot show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moorage.cli import main
from tests.doors.kube import read_yaml

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_effective_as_yaml_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEADER + "parallelism: 4\n")
    assert main(["config", "--effective", str(file)]) == 0
    (value,) = read_yaml(capsys.readouterr().out, "stdout")
    assert value["parallelism"] == 4
    assert value["profiles"][0]["plugins"]["score"][0] == {"name": "TaintToleration", "weight": 3}
    assert main(["config", "--effective", "-o", "json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "yaml: offset 0: invalid UTF-8"),
        (b"x: 1\n" * 9_999, "no kind; expected a KubeSchedulerConfiguration"),
    ],
)
def test_binary_and_long_files_are_one_short_line(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    assert main(["config", "--effective", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {file}: {message}")
    assert err.count("\n") == 1
    assert len(err) < 6000
