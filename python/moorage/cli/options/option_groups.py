"""The options of a command by group in ``--help``, the most used groups first."""

from __future__ import annotations

import click

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


class GroupedCommand(click.Command):
    """A command whose help has its options by group.

    Attributes
    ----------
    changes : frozenset of str
        The parameters that change the cluster.
    """

    changes: frozenset[str] = frozenset()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; see `click.Command`."""
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading, _ in GROUPS}
        of_name = {name: heading for heading, names in GROUPS for name in names}
        of_name |= dict.fromkeys(self.changes, GROUPS[2][0])
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups[of_name.get(parameter.name or "", GROUPS[1][0])].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
