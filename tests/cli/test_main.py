"""The command itself: help, completion, what it imports, and what happens without its extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moorage import cli
from tests.doors.cli import COMMANDS
from tests.house.source import ROOT

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_help_loads_neither_the_engine_nor_a_command() -> None:
    program = (
        "import sys; from moorage.cli import main; main(['--help']); "
        "from moorage.cli.app import COMMANDS; few = {f'moorage.cli.commands.{name}' for name in COMMANDS}; "
        "sys.exit(bool(({'numpy', 'msgspec', 'yaml'} | few) & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("program", "more"),
    [
        ("import moorage.engine.scheduler", {"importlib.metadata", "importlib.resources", "email"}),
        (f"from moorage import Cluster, Scheduler; Scheduler(Cluster(), config={HEAD})", set()),
    ],
)
def test_a_scheduler_is_made_without_what_few_need(program: str, more: set[str]) -> None:
    """Libraries that take long to import."""
    few = {"yaml", "ssl", "http.client", "subprocess", "prometheus_client"} | more
    code = f"import sys; {program}; print(*({few} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "click", None)  # type: ignore[arg-type]
    assert cli.main(["version"]) == 2
    assert capsys.readouterr().err == "error: click is missing (extra cli): pip install click\n"


@pytest.mark.parametrize(
    ("command", "rooms"),
    [
        (
            "check -f {} -o table",
            {
                "autoscalers",
                "answers.asked_pods",
                "answers.survival",
                "answers.explain",
                "compat",
                "kube.cel.program",
                "answers.answer_pages",
                "answers.page",
                "live",
            },
        ),
        ("nodes -f {} -o json", {"compat", "kube.cel.program", "answers.page", "live"}),
    ],
)
def test_imports_follow_the_command(command: str, rooms: set[str], tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    status = {"allocatable": {"cpu": "1", "pods": "9"}}
    file.write_text(json.dumps({"kind": "Node", "metadata": {"name": "n"}, "status": status}))
    few = {f"moorage.{room}" for room in rooms} | {"yaml", "xml.etree", "rich"}
    code = (
        f"import sys; from moorage.cli import main; main({command.format(file).split()}); "
        f"print(*({few} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == ""


HELPS = [*COMMANDS, "serve twin", "serve extender", "plan nodes"]
LOADED = f"""
import os, sys
from moorage.cli import main
for command in {HELPS!r}:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    main([*command.split(), "--help"])
    heavy = {{"msgspec", "numpy", "yaml", "ssl", "asyncio", "httpx2", "prometheus_client"}}
    names = [name for name in sys.modules if name.startswith("moorage.")]
    print(command, len(names), *(heavy & sys.modules.keys()), sep="\\t", file=sys.stderr, flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """How many modules each help loads, and which heavy ones; each is asked for in a process of its own."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    return {command: rest for command, *rest in (line.split("\t") for line in done.stderr.splitlines())}


@pytest.mark.parametrize("command", HELPS)
def test_a_help_loads_few_modules(command: str, loaded: dict[str, list[str]]) -> None:
    """What the options need, and nothing that the command does."""
    few, *heavy = loaded[command]
    assert (int(few) <= 26, heavy) == (True, [])


def test_a_twin_of_files_needs_no_client_of_a_server() -> None:
    """The extra `kube` is for clusters that are followed."""
    code = (
        "import importlib.util as util, sys; sys.modules['httpx2'] = None; find = util.find_spec; "
        "util.find_spec = lambda name, *of: None if name == 'httpx2' else find(name, *of); "
        "from moorage.cli import main; "
        "sys.exit(main(['serve', 'twin', '--port', '0', '-f', 'examples/shop/cluster.yaml']))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as twin:
        assert twin.stdout is not None
        line = twin.stdout.readline()
        twin.terminate()
    assert line.startswith("http://127.0.0.1:"), line


@pytest.mark.parametrize(("command", "most"), [("check", 242), ("nodes", 250)])
def test_a_command_loads_few_modules(command: str, most: int) -> None:
    """Each costs a start some time: what few inputs need is imported where it is needed."""
    code = (
        f"import sys; from moorage.cli import main; main(['{command}', '-f', 'examples']); "
        "names = [name for name in sys.modules if name.startswith('moorage') and '_core' not in name]; "
        "print(len(names), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert 100 < int(done.stderr.splitlines()[-1]) <= most


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert f"_MOORAGE_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_completion_of_an_option() -> None:
    words = {"COMP_WORDS": "moorage check --allo", "COMP_CWORD": "2", "_MOORAGE_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "from moorage.cli import main; main([])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | words)
    assert done.stdout == "plain,--allow\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("check -f {} --drain ", {"old-a", "new-c", "zone=b"}),
        ("check -f {} --fail-zone ", {"a", "b", "c"}),
        ("check -f {} --survive p", {"pool"}),
        ("check -f {} --survive ", {"node", "zone", "pool"}),
        ("simulate -f {} -n sh", {"shop"}),
        ("explain -f {} dep", {"deployment/shop/web", "deployment/shop/cart"}),
        ("simulate -f {} --restart statefulset/", {"statefulset/shop/db"}),
        ("nodes --kubeconfig {config} --context ", {"prod", "test"}),
        ("check -f no-such-file --drain ", set()),
    ],
)
def test_completion_offers_what_the_input_has(words: str, offered: set[str], tmp_path: Path) -> None:
    from click.shell_completion import ShellComplete

    from tests.doors.cli import app

    config = tmp_path / "config"
    config.write_text("contexts: [{name: test}, {name: prod}]\n")
    *arguments, begun = words.format(ROOT / "examples/shop/cluster.yaml", config=config).split(" ")
    shell = ShellComplete(app, {}, "moorage", "_MOORAGE_COMPLETE")
    found = {one.value for one in shell.get_completions(arguments, begun)}
    assert offered <= found
    assert bool(offered) == bool(found)
    assert all(name.startswith(begun) for name in found)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("dem", "demo\tWalk through the questions that moorage...\n:4\n"),
        ("check --allo", "--allow\t"),
        ("completion ba", "bash\n:4\n"),
        ("check -f ", ":0\n"),
    ],
)
def test_kubectl_is_offered_what_completes_a_plugin(
    words: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-moorage", *words.split(" ")])
    assert cli.complete() == 0
    assert capsys.readouterr().out.startswith(printed)


def test_each_command_is_in_the_help_and_has_its_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.doors.cli import COMMANDS

    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in out
        assert cli.main([name, "--help-all"]) == 0
        shown = capsys.readouterr().out
        assert name in ("completion", "config", "version") or "Exit codes: 0 " in shown
