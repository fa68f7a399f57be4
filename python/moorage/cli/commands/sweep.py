"""``moorage sweep``: replays configurations, timelines, changes and seeds."""

from __future__ import annotations

from pathlib import Path

import click

from moorage.errors import located

from ..messages import Stages
from ..options.decorators import output_option
from ..options.number_ranges import WholeNumber
from ..options.option_groups import AnsweringCommand


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
    from moorage.sim.sweep import sweep as run_sweep

    from ..output.sweep_output import write_sweep

    done = [0]
    with Stages("replaying") as stage:

        def progress(ended: int, all_of_them: int) -> None:
            if not done[0]:
                stage.count(all_of_them, lambda: done[0])
            done[0] = ended

        result = run_sweep(
            file,
            data=None if data is None else Path(data),
            executor=executor,
            workers=workers,
            folder=folder,
            histories=histories,
            progress=progress,
        )
    if measures:
        with located(source="--measures"):
            result = result.of_measures([name for part in measures.split(",") if (name := part.strip())])
    write_sweep(output, result)
