"""Options of a command have groups in ``--help``; each is in one of them."""

from __future__ import annotations

import re

import click
import pytest

from moorage.cli import main
from moorage.cli.app import app

CHANGES = "Changes of the cluster, in the order given"
ALL = ["Options", CHANGES, "Input", "Scheduler", "Output"]
GROUPED = dict.fromkeys(("check", "simulate", "explain", "capacity", "nodes"), ALL) | {
    "compare": ["Options", "Input", "Scheduler", "Output"],
    "dump": ["Options", "Input", "Output"],
    "perf": ["Options", "Scheduler", "Output"],
    "replay": ["Options", "Input", "Scheduler", "Output"],
    "sweep": ["Options", "Input", "Output"],
}


@pytest.mark.parametrize("name", GROUPED)
def test_each_option_is_below_one_heading(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    headings = re.findall(r"^(\w.*):$", out, re.MULTILINE)
    assert headings == GROUPED[name]
    command = app.get_command(click.Context(app), name)
    assert command is not None
    shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    for option in shown:
        first = max(option.opts, key=len)
        assert len(re.findall(rf"^  (?:-\w, )?(?:--\w+, )?{first}\b", out, re.MULTILINE)) >= 1, first


def test_made_up_clusters_are_shown_where_a_command_is_tried_out(capsys: pytest.CaptureFixture[str]) -> None:
    for name, shows in (("simulate", True), ("compare", True), ("check", False), ("nodes", False)):
        assert main([name, "--help"]) == 0
        assert ("--synthetic" in capsys.readouterr().out) == shows


def test_help_of_replay_lists_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--format auto|alibaba2020|" in out
    assert "scheduler_perf" not in out  # which perf runs


def test_a_scheduler_is_served_under_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for command in (["scheduler"], ["serve", "scheduler"]):
        assert main([*command, "--help"]) == 0
        texts.append(capsys.readouterr().out.partition("\n")[2])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "argument"),
    [("compare", "A B…"), ("dump", "FILE|-"), ("explain", "[TARGET]"), ("sweep", "FILE.yaml")],
)
def test_an_argument_without_a_text_is_in_the_usage_alone(
    name: str, argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: moorage {name} [OPTIONS] {argument}\n")
    assert f"\n  {argument}" not in out
