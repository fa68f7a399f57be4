"""Options of a command have groups in a help; each is in one of them, and is explained or named."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from tests.doors.cli import app

from moorage.cli import main

CHANGES = "Changes, in the order given"
GROWING = ["Options", CHANGES, "Input", "New nodes", "Scheduler", "Output"]
GROUPED = dict.fromkeys(("capacity", "check", "simulate", "explain"), GROWING) | {
    "nodes": GROWING,
    "compare": ["Options", "Input", "New nodes", "Scheduler", "Output"],
    "dump": ["Options", "Input", "Output"],
    "replay": ["Options", "Scheduler", "Output"],
    "sweep": ["Options", "Scheduler", "Output"],
    "mcp": ["Options", "Input", "New nodes", "Scheduler", "Server", "Output"],
}


@pytest.mark.parametrize("name", GROUPED)
def test_each_option_is_below_one_heading(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help-all"]) == 0
    out = capsys.readouterr().out
    headings = re.findall(r"^(\w.*):$", out, re.MULTILINE)
    assert headings == ["Examples", *GROUPED[name]]


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands that have no commands, with what is typed for them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


LEAVES = dict(leaves(app))


def options_of(command: click.Command) -> list[click.Option]:
    """Those that a help shows. A command keeps the names of --help that it is first asked with."""
    params = command.get_params(click.Context(command, **app.context_settings))
    return [one for one in params if isinstance(one, click.Option) and not one.hidden]


@pytest.mark.parametrize("path", LEAVES)
def test_a_whole_help_explains_every_option(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help-all"]) == 0
    out = capsys.readouterr().out
    for option in options_of(LEAVES[path]):
        names = rf"^  (?:-\w, )?(?:--\w+, )?{max(option.opts, key=len)}(?![\w-]).*(?:\n {{3,}}.*)*"
        *_, record = re.findall(names, out, re.MULTILINE)
        assert set((option.help or "").split()[:1]) <= set(record.split())


@pytest.mark.parametrize("path", LEAVES)
def test_a_help_is_one_screen_and_names_every_option(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*path, "--help"]) == 0
    out = capsys.readouterr().out
    assert sum(max(1, -(-len(line) // 80)) for line in out.splitlines()) <= 45
    explained, _, named = out.partition("Options of several commands, which --help-all explains:")
    for option in options_of(LEAVES[path]):
        names = "|".join((*option.opts, *option.secondary_opts))
        assert re.search(rf"(?<![\w-])({names})(?![\w-])", explained + named)
        is_own = getattr(option, "heading", None) is None and "--help" not in option.opts
        assert not (named and is_own) or re.search(rf"^  (-\w, )?{option.opts[0]}\b", explained, re.MULTILINE)
    if not named:
        assert main([*path, "--help-all"]) == 0
        assert capsys.readouterr().out == out


EXAMPLES = [one for command in (app, *LEAVES.values()) for one in getattr(command, "examples", ())]


@pytest.mark.parametrize("path", [(), *LEAVES])
def test_help_begins_with_two_examples_and_ends_with_help(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0
    out = capsys.readouterr().out
    headings = re.findall(r"^(\w.*):$", out, re.MULTILINE)
    assert headings[0] == "Examples"
    shown = out.split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(shown) == 2
    assert all(line.startswith("  moorage ") and line[2:] in EXAMPLES for line in shown)
    texts = re.split(r"\n\n(?=\w.*:\n)", out)
    last = r"-h, --help Show this message and exit. --help-all Show .*exit.|-h --help-all"
    assert any(re.search(rf"({last})$", " ".join(text.split())) for text in texts)


def test_no_range_has_bounds_that_nobody_meets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--help-all"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "--seed N Seed for random choices. [default: 0]" in out
    assert "[default: 1; at least 1]" in out
    assert "[from 0 to 100]" in out


def test_made_up_clusters_are_shown_where_a_command_is_tried_out(capsys: pytest.CaptureFixture[str]) -> None:
    for name, shows in (("simulate", True), ("compare", True), ("check", False), ("nodes", False)):
        assert main([name, "--help-all"]) == 0
        assert ("--synthetic" in capsys.readouterr().out) == shows


def test_help_of_replay_lists_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--help-all"]) == 0
    out = capsys.readouterr().out
    assert "--format auto|alibaba2020|" in out


def test_a_scheduler_is_served_under_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for command in (["scheduler"], ["serve", "scheduler"]):
        assert main([*command, "--help-all"]) == 0
        texts.append(capsys.readouterr().out.partition("\n")[2])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "argument"),
    [("compare", "A B…"), ("explain", "[TARGET]"), ("sweep", "FILE.yaml")],
)
def test_an_argument_without_a_text_is_in_the_usage_alone(
    name: str, argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help-all"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: moorage {name} [OPTIONS] {argument}\n")
    assert f"\n  {argument}" not in out
