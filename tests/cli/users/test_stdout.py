"""Nothing but the answer reaches stdout, whatever the libraries of a process write there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.doors.cli import app
from tests.house.source import ROOT

from moorage import __version__

SHOP = ["-f", "examples/shop/cluster.yaml"]
KARPENTER = ["-f", "examples/karpenter/underused/cluster.yaml", "--instance-types"]
KARPENTER += ["examples/karpenter/instance_types.yaml", "--once"]
KUEUE = ["-f", "examples/kueue/cluster.yaml", "-f", "examples/kueue/large.yaml"]
TRACE = ["tests/data/openb/nodes.csv", "tests/data/openb/pods.csv"]
NOWHERE = ["--kubeconfig", "no-such-file"]
COMMANDS = {
    "capacity": [*SHOP, "--pod", "deploy/shop/web", "-o", "json"],
    "check": [*SHOP, "-o", "json"],
    "compare": ["as-is", "drain pool=old", *SHOP, "-o", "json"],
    "completion": ["bash"],
    "config": ["--effective", "tests/data/scheduler.yaml", "-o", "json"],
    "demo": ["--folder", "{folder}"],
    "dump": NOWHERE,
    "explain": ["--all-pending", *SHOP, "-o", "json"],
    "lint": [*SHOP, "-o", "json"],
    "nodes": [*SHOP, "-o", "json"],
    "plan bound": [*SHOP, "--pod", "deploy/shop/web=40", "-o", "json"],
    "plan consolidate": [*KARPENTER, "-o", "json"],
    "plan defragment": [*SHOP, "--nodes", "1", "-o", "json"],
    "plan drain": [*SHOP, "--count", "1", "-o", "json"],
    "plan quota": [*KUEUE, "-o", "json"],
    "plan nodes": [*SHOP, "--like", "new-a", "-o", "json"],
    "replay": [*TRACE, "-o", "json"],
    "scheduler": NOWHERE,
    "serve extender": NOWHERE,
    "serve scheduler": NOWHERE,
    "serve twin": NOWHERE,
    "simulate": [*SHOP, "-o", "json"],
    "sweep": ["tests/data/openb/sweep.yaml", "--executor", "serial", "-o", "json"],
    "version": [],
}
"""An invocation of each command. Those of a cluster end at its kubeconfig, and print nothing."""
FIRST_LINES = {
    "completion": "_moorage_completion() {",
    "demo": "The files of this tour are in {folder}: ",
    "version": "moorage ",
}
"""Of those whose answer is no document."""
LIBRARIES = ["click", "jinja2", "msgspec", "numpy", "yaml"]
NOISE = f"""
import os, sys
class Noise:
    waiting = {[*LIBRARIES, "mcp"]!r}
    def find_spec(self, name, path=None, target=None):
        if name in self.waiting:
            self.waiting.remove(name)
            os.write(1, b"noise of " + name.encode() + b"\\n")
sys.meta_path.insert(0, Noise())
"""
"""A sitecustomize with which libraries write on the descriptor of stdout when they are imported; HiGHS 1.16.0
does in a constructor."""


PROGRAM = """
import json, sys
from moorage.cli import keep_stdout, main
keep_stdout()
for words in json.load(sys.stdin):
    print("\\v", main(words), sep="", end="\\f")
"""
"""What `python -m moorage` runs, for several commands: each process imports all libraries anew."""


def leaves(command: click.Command, name: str = "") -> Iterator[str]:
    """The names of the commands that have no subcommands."""
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        below = command.get_command(context, each)
        assert below is not None
        yield from leaves(below, f"{name} {each}".strip())


def run(folder: Path, arguments: list[str], text: str) -> tuple[str, str]:
    """What a process with noisy libraries prints on stdout and stderr."""
    (folder / "sitecustomize.py").write_text(NOISE)
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """What each command prints on stdout, and its exit code."""
    folder = tmp_path_factory.mktemp("noise")
    tour = str(folder / "demo")
    words = [[*name.split(), *(word.format(folder=tour) for word in COMMANDS[name])] for name in COMMANDS]
    stdout, stderr = run(folder, ["-c", PROGRAM], json.dumps(words))
    assert [name for name in LIBRARIES if f"noise of {name}\n" not in stderr] == []
    parts = [part.split("\v") for part in stdout.replace(tour, "{folder}").split("\f")]
    assert parts.pop() == [""]
    return {name: (text, int(code)) for name, (text, code) in zip(COMMANDS, parts, strict=True)}


def test_each_command_is_tried() -> None:
    assert sorted(leaves(app)) == sorted([*COMMANDS, "mcp"])


@pytest.mark.parametrize("name", COMMANDS)
def test_stdout_has_the_answer_alone(name: str, printed: dict[str, tuple[str, int]]) -> None:
    text, code = printed[name]
    if "json" in COMMANDS[name]:
        assert code < 2
        json.loads(text)
    elif name in FIRST_LINES:
        assert text.startswith(FIRST_LINES[name])
        assert "noise" not in text
    else:
        assert (text, code) == ("", 2)


def test_stdout_of_a_server_for_agents_has_messages_alone(tmp_path: Path) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    stdout, stderr = run(tmp_path, ["-m", "moorage", "mcp", *SHOP], json.dumps(ping) + "\n")
    assert json.loads(stdout)["id"] == 1
    assert "noise of mcp\n" in stderr


def test_the_program_keeps_stdout(tmp_path: Path) -> None:
    stdout, stderr = run(tmp_path, ["-m", "moorage", "version"], "")
    assert (stdout, stderr) == (f"moorage {__version__}\n", "noise of click\n")
