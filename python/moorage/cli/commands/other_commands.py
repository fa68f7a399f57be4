"""Commands that answer no question: ``config``, ``demo`` and ``dump``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError, located, shorten

from ..messages import print_warnings
from ..options.inputs import (
    connection_options,
    file_options,
    gate_options,
    listed_objects,
    load_input,
    selected_gates,
)
from ..options.option_types import AnsweringCommand, GroupedCommand, is_given, output_option

if TYPE_CHECKING:
    from moorage.kube import Object


# ---- config ------------------------------------------------------------------------------------------------
#
# ``moorage config``: validates a scheduler configuration and prints its effective form.

SHOWN = 4000
"""Maximum length of an error; upstream quotes the whole text of an object without a kind."""


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage config tests/data/scheduler.yaml",
        "moorage config --effective tests/data/scheduler.yaml",
    ),
)
@click.argument("file", metavar="FILE|-")
@click.option(
    "--effective",
    "show",
    is_flag=True,
    help="Print the configuration that is in effect: defaults, the plugins of each extension "
    "point in order, weights and arguments.",
)
@output_option(["yaml", "json"], "Format of --effective.")
@gate_options
def config(file: str, show: bool, output: str, gates: str, version: str) -> None:
    """Read a KubeSchedulerConfiguration as kube-scheduler does, and say whether it is valid."""
    from moorage.engine.framework.configuration import ConfigurationError, effective, load_configuration
    from moorage.engine.plugins.registry import in_tree
    from moorage.kube.read.files import source_name

    from .printing import ignore_broken_pipe, write_value

    name = source_name(file)
    try:
        selected = selected_gates(gates, version)
        plugins = in_tree(selected.release)
        configuration = load_configuration(file, plugins, feature_gates=selected)
        value = effective(configuration, {plugin.name: plugin for plugin in plugins}, selected.release)
    except ConfigurationError as error:
        raise InputError(shorten(error.message, SHOWN), source=name, path=error.path) from None
    with ignore_broken_pipe():
        if show:
            write_value(output, value)
        else:
            print(f"{name}: valid")


# ---- demo --------------------------------------------------------------------------------------------------
#
# ``moorage demo``: a guided tour over a bundled cluster, which ends with a page in HTML.

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
        click.echo(click.wrap_text(text, width=100))
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


# ---- dump --------------------------------------------------------------------------------------------------
#
# ``moorage dump``: writes what scheduling needs of a cluster.


@click.command(
    cls=AnsweringCommand,
    examples=(
        "moorage dump --context prod -o cluster.json.gz",
        "moorage dump -f examples/demo.yaml --anonymize",
    ),
)
@file_options
@connection_options
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace names, labels, taints and images by meaningless words. Decisions stay the same.",
)
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE|-",
    default="-",
    help="YAML or JSON by its suffix, compressed with .gz; -, the default, is standard output, as JSON.",
)
def dump(file: str, anonymize: bool, **options: Any) -> None:
    """Write the objects of a cluster, or of files, that scheduling reads, for -f of the other commands.

    Secrets and configuration maps are not read, and of a pod only what scheduling reads is written: no
    environment, no commands. Of files, also the pods that operators make of their objects are written.

    Exit codes: 0 the file is written; 2 bad input, or the server has refused.
    """
    from moorage.kube import dump as text_of
    from moorage.kube import write
    from moorage.kube.edit import anonymize as renamed

    names = ("recursive", "validate", "namespace", "hooks")
    if not options["files"] and any(map(is_given, names)):
        raise click.UsageError("-R, --hooks, --validate and -n need -f")
    objects = _of_files(options) if options["files"] else listed_objects(options).objects
    if anonymize:
        objects = renamed(objects)
    if file == "-":
        click.echo(text_of(objects), nl=False)
        return
    with located(OSError, source=file):
        write(file, objects)


def _of_files(options: Mapping[str, Any]) -> Sequence[Object]:
    """Return the objects that files come to, as they would be read from a server."""
    from moorage.live.client.cluster_objects import without_contents

    cluster = load_input({**options, "synthetic": None, "like_siblings": False})
    print_warnings(cluster.warnings)
    listed = cluster.namespaces, cluster.nodes, cluster.others, cluster.pods, cluster.finished
    return [without_contents(obj) for objects in listed for obj in objects]
