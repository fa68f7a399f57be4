"""``moorage compare``: several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..messages import Stages
from ..options.decorators import is_given, output_option
from ..options.inputs import input_or_synthetic_options, scheduler_options
from ..options.new_node_options import (
    OPTION,
    differing_disruption,
    no_new_nodes,
    node_source_options,
    refuse_groups,
)
from ..options.option_groups import AnsweringCommand

if TYPE_CHECKING:
    from ..runs.comparison import Alternative


@click.command(
    cls=AnsweringCommand,
    examples=(
        'moorage compare as-is "drain pool=old" -f examples/shop/cluster.yaml',
        'moorage compare "kubernetes 1.35" "kubernetes 1.37" -f examples/upgrade/cluster.yaml',
    ),
)
@click.argument("alternatives", nargs=-1, required=True, metavar="A B…")
@input_or_synthetic_options
@click.option("--from-scratch", is_flag=True, help="Place bound pods anew; only mirror pods stay.")
@output_option(
    ["table", "json", "yaml", "csv", "markdown", "github", "html"],
    "csv has the pods that differ; github has annotations for CI.",
)
@node_source_options
@scheduler_options
def compare(alternatives: tuple[str, ...], from_scratch: bool, output: str, **options: Any) -> None:
    """Compare runs: show their measures side by side, and the pods that are not in the same place.

    A, B and so on are each a KubeSchedulerConfiguration, a cluster (instead of that of -f), manifests without
    a node, which change the cluster as a later -f does, a file with node groups (see --node-groups), changes
    of the cluster such as "drain n1; scale deploy/web=4", or as-is. Changes are named like the options of
    simulate.
    "kubernetes 1.36" "kubernetes 1.37" compares two releases, and names the behaviours and feature gates that
    make the difference. A release may have feature gates of its own, as "kubernetes 1.37
    GenericWorkload=true".

    Exit codes: 0 if all alternatives ran, whether or not they differ; 2 for bad input.
    """
    from ..options.deciding_release import print_notes
    from ..options.inputs import listed_once, load_input
    from ..output.comparison_output import write_comparison
    from ..runs.comparison import run_alternative
    from ..runs.release_comparison import compare_releases, releases_named

    sides = releases_named(alternatives)
    if sides is not None:
        if is_given("version"):
            raise click.UsageError("the alternatives name the releases: leave out --kubernetes-version")
        if options["types_file"]:
            raise click.UsageError(f"{OPTION} has no effect between releases, for which no nodes come")
        refuse_groups(options, "releases, for which no nodes come")
        with Stages("comparing releases") as stage:
            cluster = load_input({**options, "version": sides[1].version})
            compared = compare_releases(sides, cluster, options, (), from_scratch, stage)
        done = [compared.before, compared.after]
    else:
        if len(alternatives) < 2:
            raise click.UsageError("give at least two alternatives")
        compared, done, options = None, [], dict(listed_once(options))
        with Stages(*alternatives, "comparing") as stage:
            for name in alternatives:
                done.append(run_alternative(name, options, from_scratch))
                stage()
    warnings = _warnings(done)
    warnings += dict.fromkeys(one.simulation.grown.source for one in done if one.simulation.grown is not None)
    warnings += differing_disruption([one.simulation.cluster for one in done])
    if compared is not None:
        warnings += no_new_nodes(done[0].simulation.cluster, "a comparison of releases")
    print_notes(warnings, *(one.simulation.cluster for one in done))
    write_comparison(output, done, warnings, compared)


def _warnings(alternatives: Sequence[Alternative]) -> list[str]:
    """Return the warnings of all alternatives. Those that only some have begin with the names of these, but
    for a change, which they name anyway."""
    by_text: dict[str, list[str]] = {}
    for one in alternatives:
        for text in dict.fromkeys(one.simulation.warnings()):
            by_text.setdefault(text, []).append(one.name)
    return [
        text
        if len(names) == len(alternatives) or names[0] in text
        else f"{', '.join(dict.fromkeys(names))}: {text}"
        for text, names in by_text.items()
    ]
