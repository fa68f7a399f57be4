"""``moorage config``: what it prints, and how it refuses."""

from __future__ import annotations

import io
import json
import sys
import textwrap
from pathlib import Path

import pytest

from moorage.cli import main
from tests.doors.kube import read_yaml

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(HEADER + "parallelism: 4\n")
    return path


def test_a_valid_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: valid\n"


def test_effective_as_yaml_and_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--effective", str(file)]) == 0
    (value,) = read_yaml(capsys.readouterr().out, "stdout")
    assert value["parallelism"] == 4
    assert value["profiles"][0]["plugins"]["score"][0] == {"name": "TaintToleration", "weight": 3}
    assert main(["config", "--effective", "-o", "json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == value


def test_a_configuration_is_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, code in ((HEADER, 0), (HEADER + "parallelism: 0", 2)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main(["config", "--effective", "-"]) == code
    error = "parallelism: Invalid value: 0: should be an integer value greater than zero"
    assert capsys.readouterr().err == f"error: stdin: {error}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "yaml: line "),
        (b"\xff", "yaml: offset 0: invalid UTF-8"),
        ("just words", "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go"),
        ("", "Object 'Kind' is missing in ''"),
        ("x: 1\n" * 9_999, "Object 'Kind' is missing in 'x: 1 x: 1"),
        ("apiVersion: v1\nkind: Pod", 'no kind "Pod" is registered for version "v1" in scheme "k8s.io/'),
        (HEADER + "prallelism: 1", 'strict decoding error: unknown field "prallelism"'),
        (
            HEADER + "parallelism: 1\nparallelism: 2",
            'strict decoding error: yaml: unmarshal errors: line 4: key "parallelism" already set in map',
        ),
        (
            HEADER + "leaderElection: {leaseDuration: soon}",
            'leaderElection.leaseDuration: time: invalid duration "soon"',
        ),
        (
            HEADER + "profiles: [{plugins: {filter: {enabled: [{name: Mine}]}}}]",
            "initializing profiles: creating profile for scheduler name default-scheduler: "
            'FilterPlugin "Mine" does not exist',
        ),
    ],
)
def test_a_bad_configuration_is_one_short_line_that_names_the_file(
    text: str | bytes, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["config", "--effective", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {file}: {message}")
    assert err.count("\n") == 1
    assert len(err) < 6000


def config_map(*configurations: str) -> str:
    listed = "".join(
        f"  config{at}: |\n" + textwrap.indent(text, "    ") for at, text in enumerate(configurations)
    )
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  other: x\n{listed}"


def test_a_configuration_in_a_config_map(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\nparallelism: 7\n"
    file.write_text(config_map(text))
    assert main(["config", "--effective", str(file)]) == 0
    assert "parallelism: 7\n" in capsys.readouterr().out
    file.write_text(config_map(text, text))
    assert main(["config", str(file)]) == 2
    assert "this ConfigMap has several configurations (config0, config1); give one" in capsys.readouterr().err
    file.write_text(config_map())
    assert main(["config", str(file)]) == 2
    assert 'no kind "ConfigMap" is registered' in capsys.readouterr().err


def test_a_missing_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.unlink()
    assert main(["config", str(file)]) == 2
    assert capsys.readouterr().err == f"error: {file}: no such file\n"


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["-o", "table", "a"]])
def test_wrong_usage_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *arguments]) == 2
    assert capsys.readouterr().err.startswith("error: ")
