"""``moorage replay``: what happens to the pods of a trace; ``moorage sweep``: many of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from moorage.errors import NO_NODE, InputError, located

from ..messages import BASIS, Stages, note, print_message, print_warnings
from ..options.inputs import plugins_option, scheduler_options, scheduler_settings
from ..options.option_types import AnsweringCommand, WholeNumber, is_given, output_option

NUMBER = re.compile(r"\d+(\.\d+)?")
OF_HISTORIES = {
    name: f"--{name.replace('_', '-')}" for name in ("until", "on_failure", "show", "resource", "by")
} | {"measures": "--measure", "folder": "--write"}
"""Parameters that --verify has no use for, because it makes no history, and their options."""


def _options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parse options of a format, ``NAME=VALUE``; numbers, true and false become what they are."""
    out: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (name and sign):
            raise InputError(f'must be NAME=VALUE, not "{pair}"', source="--option")
        is_number = NUMBER.fullmatch(value)
        words = {"true": True, "false": False}
        out[name] = (float(value) if "." in value else int(value)) if is_number else words.get(value, value)
    return out


def _check(options: dict[str, Any]) -> None:
    """Refuse what --verify or a form of output has no place for."""
    form = options["output"]
    if options["verify"]:
        for name, option in OF_HISTORIES.items():
            if is_given(name):
                raise click.UsageError(f"--verify makes no history: leave out {option}")
    if form in ("png", "svg") and options["measures"]:
        raise click.UsageError(f"-o {form} shows no measures: leave out --measure")
    if form not in ("html", "png", "svg"):
        show = options["show"]
        unused = [] if show in ("summary", "measures") else ["measures"]
        for name in unused if show == "usage" else [*unused, "resource", "by"]:
            if is_given(name):
                raise click.UsageError(f"--show {show} does not use {OF_HISTORIES[name]}: leave it out")
        return
    if form != "html" and options["verify"]:
        raise click.UsageError(f"--verify does not write -o {form}")
    if options["show"] != "summary":
        raise click.UsageError(f"-o {form} shows the whole history: leave out --show")
    if options["resource"] != "cpu":
        raise click.UsageError(f"-o {form} shows all resources: leave out --resource")
    if options["by"] == "node":
        raise click.UsageError(f"-o {form} needs a node label for --by")


def _measure(text: str) -> Any:
    """Parse a measure, which may have options."""
    from moorage.kube.read.documents import read_yaml

    documents = list(read_yaml(text, "--measure")) if text.lstrip().startswith("{") else [text]
    if len(documents) != 1:
        raise InputError("must be one measure", source="--measure")
    return documents[0]


class Format(click.types.StringParamType):
    """A name of a format, of which ``--help`` lists all. The reader refuses others."""

    name = "format"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return all names; see `click.ParamType`."""
        from moorage.sim.loaders.formats import FORMATS

        return "|".join(("auto", *FORMATS))


@click.command(
    cls=AnsweringCommand,
    examples=(
        "moorage replay examples/autoscaling.yaml",
        "moorage replay tests/data/openb/nodes.csv tests/data/openb/pods.csv --show pods",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--format", "form", type=Format(), default="auto", show_default=True, help="The format of the files."
)
@click.option(
    "--option", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the format; repeatable."
)
@click.option(
    "-f",
    "--file",
    "cluster",
    multiple=True,
    metavar="FILE|DIR",
    help="The cluster at the start, for traces without nodes; repeatable.",
)
@click.option(
    "--until", help='Stop at a time (3600, 1h), or on a condition: "pod x pending > 5m", "pending > 10".'
)
@click.option(
    "--on-failure",
    type=click.Choice(["retry", "drop"]),
    default="retry",
    show_default=True,
    help="What to do with a pod that fits nowhere.",
)
@click.option("--verify", is_flag=True, help="Compare the recorded bindings with the decisions of moorage.")
@click.option(
    "--show",
    type=click.Choice(
        ["summary", "decisions", "pods", "nodes", "usage", "measures", "scalings", "disruptions"]
    ),
    default="summary",
    show_default=True,
)
@click.option("--resource", default="cpu", show_default=True, help="The resource that --show usage shows.")
@click.option(
    "--by",
    default="",
    metavar="node|LABEL",
    help="Group nodes by this for --show usage, and into pools for -o html, png and svg.",
)
@click.option(
    "--measure",
    "measures",
    multiple=True,
    metavar="NAME|{NAME: {OPTION: VALUE…}}",
    help="A measure, or module:function; repeatable. Default: the measures of the scenario. "
    "See docs/measures.md.",
)
@click.option(
    "--write", "folder", metavar="DIR", help="Write the whole history to this folder, as Parquet or CSV."
)
@scheduler_options
@output_option(["table", "json", "yaml", "csv", "markdown", "html", "png", "svg"])
def replay(files: tuple[str, ...], **options: Any) -> int:
    """Replay a trace or a scenario in virtual time.

    Exit codes: 0 the replay ran, or with --verify all bindings agree; 1 one differs; 2 bad input.
    """
    from moorage.kube.read.files import source_name
    from moorage.kube.releases import DEFAULT
    from moorage.sim.measures import evaluate
    from moorage.sim.replay import replay as run
    from moorage.sim.replay import verify
    from moorage.sim.timeline import Timeline

    from .replay_output import write_history, write_measures, write_verification

    _check(options)
    with Stages("reading", "replaying") as following:
        timeline = Timeline.read(*files, format=options["form"], **_options(options["pairs"]))
        if options["cluster"]:
            from moorage.kube import load
            from moorage.kube.read.python_values import file_named

            if timeline.cluster.nodes:
                raise InputError("the trace has nodes itself", source="-f")
            timeline.start_with(load(*map(file_named, options["cluster"])))
        if not timeline.may_have_nodes:
            hint = "so no pod can have one; give the nodes of a cluster with -f (kubectl get nodes -o json)"
            raise InputError(f"{NO_NODE}, {hint}", source=source_name(files[0]))
        if not timeline.may_have_pods:
            hint = "so there is nothing to place; give a file with pods, too"
            raise InputError(f"The trace has no pod, {hint}", source=source_name(files[0]))
        following()
        if options["verify"]:
            verification = verify(timeline, **scheduler_settings(options))
        else:
            history = run(
                timeline,
                until=options["until"],
                on_failure=options["on_failure"],
                checkpoints=0,
                **scheduler_settings(options),
            )
    counts = {**timeline.notes, **(verification if options["verify"] else history).counts}
    notes = [f"{number} {what}" for what, number in counts.items()]
    note(BASIS, f"Kubernetes {options['version'] or DEFAULT}")
    print_warnings(notes)
    if options["verify"]:
        write_verification(verification, options, notes)
        return int(not verification.agrees)
    if options["folder"]:
        history.write(options["folder"])
    measured = evaluate(history, *(_measure(text) for text in options["measures"]))
    if options["show"] == "measures":
        write_measures(options["output"], history, measured)
        return 0
    write_history(history, options, measured, notes)
    return 0


@click.command(
    cls=AnsweringCommand,
    examples=(
        "moorage sweep tests/data/openb/sweep.yaml",
        "moorage sweep tests/data/openb/sweep.yaml --executor serial --folder results -o csv",
    ),
)
@click.argument("file", metavar="FILE.yaml")
@click.option(
    "--data", metavar="DIR", help="Folder of the files that FILE names; default: the folder of FILE."
)
@plugins_option(", which the configurations of FILE may name")
@click.option(
    "--executor",
    type=click.Choice(["serial", "threads", "processes", "ray"]),
    default="processes",
    show_default=True,
    help="Where the replays run; ray needs the extra ray.",
)
@click.option(
    "--workers",
    type=WholeNumber(min=1),
    metavar="N",
    help="Number of threads or processes; default: the number of processors.",
)
@click.option(
    "--folder", metavar="DIR", help="Keep results here, and skip replays whose results are there already."
)
@click.option(
    "--histories", is_flag=True, help="With --folder, also keep the decisions and pods of each replay."
)
@click.option(
    "--measures",
    default="",
    metavar="A,B",
    help="Show only these measures; gpu_allocation stands for gpu_allocation_at_10, _at_20 and so on.",
)
@output_option(
    ["table", "json", "yaml", "csv", "markdown", "latex", "html", "png", "svg"],
    "csv has the measures of each replay, the other formats have means: table, markdown and latex a column "
    "for each configuration.",
)
def sweep(  # noqa: PLR0913
    file: str,
    data: str | None,
    plugins: str | None,
    executor: str,
    workers: int | None,
    folder: str | None,
    histories: bool,
    measures: str,
    output: str,
) -> None:
    """Replay each configuration of a file with each timeline, change and seed, and compare their measures.

    The result of a replay is a function of its inputs alone: the output is the same for every executor, and
    for a sweep that was stopped and started again with the same --folder.

    Exit codes: 0 all replays ran; 2 bad input.
    """
    from moorage.sim.plugin_file import read_plugin_file
    from moorage.sim.sweep import sweep as run_sweep

    from .replay_output import write_sweep

    done = [0, 0]
    try:
        with Stages("replaying") as stage:

            def progress(ended: int, all_of_them: int) -> None:
                done[:] = ended, all_of_them
                stage.count(all_of_them, lambda: ended)

            result = run_sweep(
                file,
                data=None if data is None else Path(data),
                registry=None if plugins is None else read_plugin_file(plugins),
                executor=executor,
                workers=workers,
                folder=folder,
                histories=histories,
                progress=progress,
            )
    except KeyboardInterrupt:
        saved = f"saved in {folder}: the same command goes on" if folder else "lost: --folder keeps them"
        print_message("interrupted", f"{done[0]} of {done[1] or 'all'} replays are done, and {saved}")
        raise
    if measures:
        with located(source="--measures"):
            result = result.of_measures([name for part in measures.split(",") if (name := part.strip())])
    write_sweep(output, result)
