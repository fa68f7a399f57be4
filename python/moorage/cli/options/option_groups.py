"""``--help`` of a command: its text, examples, and its options by group, the most used groups first."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from ..messages import QUIET, REFUSED, VERBOSE, notes_below

CHANGES = "Changes of the cluster, in the order given"
NEW_NODES = "Nodes that come"
GROUPS = {
    "Options": (),
    CHANGES: ("pod_times",),
    "Input": (
        *(
            "files",
            "recursive",
            "hooks",
            "namespace",
            "validate",
            "kubeconfig",
            "context",
            "in_cluster",
            "synthetic",
        ),
        *("admission", "like_siblings", "form", "pairs", "cluster", "data"),
    ),
    NEW_NODES: (
        *("types_file", "ignore_dra_requests", "preference_policy", "unavailable"),
        *("groups_file", "group_sizes", "autoscales", "draws"),
    ),
    "Scheduler": ("config", "version", "upgrade_from", "gates", "percentage", "tie_break", "seed"),
    "Output": (
        *("output", "title", "verbose", "all_namespaces", "selector", "summary_only"),
        *("show", "resource", "measures", "folder", "histories", "quiet", "notes"),
    ),
}
"""Headings, and the parameters below them; of the first those that are in no other group, and of the second
what changes the cluster."""
ARGUMENTS = "moorage.arguments"
"""Where a context keeps the arguments of the command."""
MAY_BE_EMPTY = {"namespace", "selector", "gates"}
"""Lists and selectors, of which an empty one says nothing; every other argument that is empty, as an unset
variable of a shell is, is an error."""


class WithExamples(click.Command):
    """A command whose help shows how it is called, below its first sentence."""

    examples: tuple[str, ...] = ()

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples or self.examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text and the examples; see `click.Command`."""
        first, _, rest = inspect.cleandoc(self.help or "").partition("\n\n")
        _write_text(formatter, first)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
        _write_text(formatter, rest)


class GroupedCommand(WithExamples):
    """A command whose help has its options by group.

    Attributes
    ----------
    changes : frozenset of str
        The parameters that change the cluster.
    """

    changes: frozenset[str] = frozenset()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse empty ones; see `click.Command`."""
        ctx.meta[ARGUMENTS] = tuple(args)
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
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in GROUPS}
        of_name = {name: heading for heading, names in GROUPS.items() for name in names}
        of_name |= dict.fromkeys(self.changes, CHANGES)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and record[1]:  # an argument without a text is in the usage
                is_help = parameter is self.get_help_option(ctx)
                groups["Output" if is_help else of_name.get(parameter.name or "", "Options")].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class AnsweringCommand(GroupedCommand):
    """A command that ends with an answer, below which are its notes.

    Like kubectl, it exits with 1 if the API server would refuse an object of the change.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [_flag("-q", "quiet", "Say nothing on stderr but errors.", QUIET)]
        self.params += [_flag("-v", "notes", "Show the notes on a terminal, too, not their number.", VERBOSE)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see `click.Command`."""
        with notes_below():
            code = super().invoke(ctx)
            return code or int(REFUSED in ctx.meta)


def _write_text(formatter: click.HelpFormatter, text: str) -> None:
    if text:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)


def _flag(name: str, parameter: str, text: str, key: str) -> click.Option:
    """Return a flag of every command that answers, which its context keeps."""

    def keep(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
        context.meta[key] = is_given

    return click.Option([name, parameter], is_flag=True, expose_value=False, callback=keep, help=text)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value, which may be repeatable and have several arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _texts(one)
