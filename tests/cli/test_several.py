"""`moorage simulate --schedulers`: counts on stdout, times on stderr."""

from __future__ import annotations

import json

import pytest

from moorage.cli import main

MADE_UP = ("simulate", "--synthetic", "nodes=20,pods=300")


def test_the_counts_are_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MADE_UP, "--summary", "--schedulers", "3", "--chunk", "32"]) == 0
    out, err = capsys.readouterr()
    assert "SCHEDULER  PODS  PLACEMENTS  BOUND  RETRIES" in out
    assert "Insufficient" in out[out.index("CONFLICT") :]
    assert "pods/s: deciding" in err
    assert main([*MADE_UP, "--summary", "--schedulers", "3", "--chunk", "32"]) == 0
    assert capsys.readouterr().out == out


def test_the_document_has_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*MADE_UP, "--schedulers", "2", "--partition", "hash", "-o", "json", "--summary"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["schedulers"]) == 2
    assert (
        sum(one["bound"] for one in document["schedulers"]) + document["placedAlone"]
        == document["summary"]["placed"]
    )
    for one in document["schedulers"]:
        assert one["retries"] == sum(one["conflicts"].values())


@pytest.mark.parametrize("option", [["--partition", "zone"], ["--chunk", "5"], ["--executor", "ray"]])
def test_the_options_are_for_several(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MADE_UP, *option]) == 2
    assert "--partition, --chunk and --executor need --schedulers" in capsys.readouterr().err
