"""The options of a command by group in ``--help``, the most used groups first."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.core import ParameterSource

INPUT = (
    *("files", "recursive", "namespace", "validate", "kubeconfig", "context", "in_cluster", "synthetic"),
    *("form", "pairs", "cluster", "data"),
)
SCHEDULER = ("config", "version", "upgrade_from", "gates", "percentage", "tie_break", "seed")
OUTPUT = (
    *("output", "verbose", "all_namespaces", "selector", "summary_only", "annotate", "help"),
    *("show", "resource", "measures", "folder", "histories"),
)
GROUPS = (
    ("Input", INPUT),
    ("Options", ()),
    ("Changes of the cluster, in the order given", ()),
    ("Output", OUTPUT),
    ("Scheduler", SCHEDULER),
)
"""Headings, and the parameters below them; of the second and third those that are in no other group."""
MAY_BE_EMPTY = {"namespace", "selector", "gates"}
"""Lists and selectors, of which an empty one says nothing; every other argument that is empty, as an unset
variable of a shell is, is an error."""


class GroupedCommand(click.Command):
    """A command whose help has its options by group.

    Attributes
    ----------
    changes : frozenset of str
        The parameters that change the cluster.
    """

    changes: frozenset[str] = frozenset()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse empty ones; see `click.Command`."""
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            name = parameter.name or ""
            if name in MAY_BE_EMPTY or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
                continue
            if any(not text.strip() for text in _texts(ctx.params.get(name))):
                is_option = isinstance(parameter, click.Option)
                title = parameter.opts[0] if is_option else parameter.make_metavar(ctx).strip("[]…")
                raise click.UsageError(
                    f"{title}: an argument is empty; give it a value, or leave it out", ctx
                )
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; see `click.Command`."""
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading, _ in GROUPS}
        of_name = {name: heading for heading, names in GROUPS for name in names}
        of_name |= dict.fromkeys(self.changes, GROUPS[2][0])
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and record[1]:  # an argument without a text is in the usage
                groups[of_name.get(parameter.name or "", GROUPS[1][0])].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value, which may be repeatable and have several arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _texts(one)
