"""``python -m tests.package.extras WHEEL``: each extra alone, in a virtual environment of its own.

First the wheel is installed without extras: what needs one says so in one sentence that names it. Then each
extra is installed alone, and the same program ends well. Takes minutes and the network: `make extras`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from time import monotonic

from tests.house.source import ROOT

PINNED = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
FOR_DEVELOPERS = {"test", "bench", "lint", "docs", "campaign"}
LOADED = """
import sys
import moorage as mo
scheduler = mo.Scheduler(mo.load(sys.argv[1]))
"""
PROGRAMS = {
    "cli": """
import sys
from moorage.cli import main
code = main(["simulate", "-f", sys.argv[1], "-o", "html"])
code = code or main(["simulate", "-f", sys.argv[1], "--summary"])
sys.exit(code)
""",
    "report": """
import moorage as mo
from moorage.answers import picture
from moorage.sim.replay_report import history_figure
timeline = mo.Timeline(mo.synthetic(nodes=3))
timeline.add_pods(mo.synthetic(nodes=1, pods=1).pods[0], [1.0, 2.0], [5.0, 5.0], name="web")
assert picture(history_figure(mo.replay(timeline)), "png").startswith(b"\\x89PNG")
""",
    "lp": f"""{LOADED}
limit = scheduler.ask.bound()
assert limit.bound >= limit.placed, limit
""",
    "kube": """
import sys
from moorage.errors import MoorageError
from moorage.live.client import connect
try:
    connect(sys.argv[1] + "/no-such-file", None)
except MoorageError:
    pass
""",
    "mcp": """
import sys
from moorage.cli.asked_twin import AskedTwin
from moorage.cli.mcp_server import mcp_server
assert mcp_server(AskedTwin(None, [sys.argv[1]]).reply).name == "moorage"
""",
    "ray": """
from moorage.sim.sweep import make_executor
with make_executor("ray") as executor:
    assert executor.submit(sum, [1, 2]).result() == 3
""",
    "rl": """
import moorage as mo
from moorage.sim.gym import SchedulingEnv
timeline = mo.Timeline(mo.synthetic(nodes=3))
timeline.add_pods(mo.synthetic(nodes=1, pods=1).pods[0], [1.0, 2.0], [5.0, 5.0], name="web")
seen, info = SchedulingEnv(timeline).reset(seed=1)
assert seen["mask"].any()
""",
}


def main(wheel: Path) -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = metadata["project"]["optional-dependencies"].keys() - FOR_DEVELOPERS
    if extras != PROGRAMS.keys():
        sys.exit(f"no program for {sorted(extras ^ PROGRAMS.keys())}")
    with tempfile.TemporaryDirectory() as directory:
        python = installed(str(wheel), Path(directory))
        for extra in PROGRAMS:
            done = run(python, extra)
            *before, last = done.stderr.strip().splitlines() or [""]
            hint = f"(extra {extra}): pip install"
            if done.returncode == 0 or hint not in last or (before and extra == "cli"):
                sys.exit(f"{extra}: without it nobody reads {hint!r}:\n{done.stdout}{done.stderr}")
            print(f"without {extra}: {last}", flush=True)
    for extra in PROGRAMS:
        with tempfile.TemporaryDirectory() as directory:
            began = monotonic()
            python = installed(f"{wheel}[{extra}]", Path(directory))
            done = run(python, extra)
            if done.returncode:
                sys.exit(f"{extra}: {done.stdout}{done.stderr}")
            print(f"{extra} alone: works, {monotonic() - began:.0f} s", flush=True)


def installed(requirement: str, directory: Path) -> Path:
    """The interpreter of a new virtual environment in which a requirement is installed."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    python = directory / "bin/python"
    subprocess.run([str(python), "-I", "-m", "pip", "install", *PINNED, requirement], check=True)
    return python


def run(python: Path, extra: str) -> subprocess.CompletedProcess[str]:
    """Run the program of an extra, away from the source tree."""
    command = [str(python), "-I", "-c", PROGRAMS[extra], str(ROOT / "examples")]
    return subprocess.run(command, cwd=python.parent, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
