"""``moorage demo``: a guided tour over a bundled cluster, which ends with a page in HTML."""

from __future__ import annotations

import shlex
from contextlib import redirect_stdout
from importlib.resources import files
from pathlib import Path

import click

from ..options.option_types import GroupedCommand

FILES = ("cluster.yaml", "web.yaml")
"""The bundled files of the tour, in ``cli/tour``."""
PAGE = "report.html"
STEPS = (
    (
        "Where does everything go?",
        "cluster.yaml has five nodes in three zones, and workloads. Each workload expands to its pods, and "
        "each pod is decided as kube-scheduler would decide it.",
        "simulate -f cluster.yaml",
    ),
    (
        "Why is a pod pending, and what would help?",
        "Two pods of deployment search have no node. Each change that is listed was tried on the engine.",
        "explain deploy/shop/search -f cluster.yaml",
    ),
    (
        "Does it fit with one node more?",
        "check is a gate: its exit code is 0 only if every pod that should run has a node.",
        "check -f cluster.yaml --add-nodes worker-a2=1",
    ),
    (
        "How many more web servers fit?",
        "web.yaml is one pod of deployment web. The last table says what stops the next one in each zone.",
        "capacity -f cluster.yaml --pod web.yaml --after-run",
    ),
    (
        "What would a change do?",
        "Alternatives side by side: the cluster as it is, without a worker, and with one more.",
        'compare as-is "drain worker-c1" "add-nodes worker-a2=1" -f cluster.yaml',
    ),
)
"""Heading, explanation and command of each step."""
REPORT = "simulate -f cluster.yaml -o html"


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage demo",
        "moorage demo --folder tour",
    ),
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="moorage-demo",
    show_default=True,
    help="Folder for the files of the tour. It is created, and files with the same names are overwritten.",
)
def demo(folder: Path) -> None:
    """Walk through the questions that moorage answers, on a small cluster. The tour ends with a page in HTML.

    On a terminal the tour waits for a key after each step. Every command can be repeated in the folder.

    Exit codes: 0 the tour has ended; 2 the folder cannot be written.
    """
    from .printing import print_lines

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).write_bytes(files("moorage.cli").joinpath("tour", name).read_bytes())
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror}") from error
    click.echo(f"The files of this tour are in {folder}: {', '.join(FILES)}.")
    for number, (heading, text, command) in enumerate(STEPS, 1):
        click.echo()
        click.echo(click.style(f"{number}/{len(STEPS) + 1}  {heading}", bold=True))
        print_lines([text])
        click.echo(f"\n$ moorage {command}\n")
        _run(command, folder)
        click.pause()
    click.echo(click.style(f"\n{len(STEPS) + 1}/{len(STEPS) + 1}  A page for others", bold=True))
    click.echo(f"\n$ moorage {REPORT} > {PAGE}\n")
    with (folder / PAGE).open("w", encoding="utf-8") as page, redirect_stdout(page):
        _run(REPORT, folder)
    click.echo(f"Open {folder / PAGE} in a browser: one file, without network.")
    click.echo("`moorage --help` lists the commands.")


def _run(command: str, folder: Path) -> None:
    """Run a command over the files of the tour, which it names without their folder."""
    from ..app import app

    arguments = [str(folder / word) if word in FILES else word for word in shlex.split(command)]
    app.main(arguments, prog_name="moorage", standalone_mode=False)
