"""How options look: their groups in a help, the values that they take, and what a shell offers."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moorage.errors import ConfigurationError, first_of, nearest

from ..messages import QUIET, REFUSED, ROWS, TOP, VERBOSE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from moorage.kube import Cluster

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
OWN = "Options"
CHANGES = "Changes, in the order given"
INPUT, NEW_NODES, SCHEDULER, SERVER, OUTPUT = "Input", "New nodes", "Scheduler", "Server", "Output"
HEADINGS = OWN, CHANGES, INPUT, NEW_NODES, SCHEDULER, SERVER, OUTPUT
"""The groups of options in a help: those of the command alone, then those that commands share."""
ALL = "all"
SCREEN = 45
"""Lines of a help, beyond which it names the shared options, and explains the command's own."""
ARGUMENTS = "moorage.arguments"
"""Where a context keeps the arguments of the command."""
MAY_BE_EMPTY = {"namespace", "selector", "gates"}
"""Lists and selectors, of which an empty one says nothing; every other argument that is empty, as an unset
variable of a shell is, is an error."""


class SharedOption(click.Option):
    """An option that several commands have, in a group of them.

    Attributes
    ----------
    heading : str
        One of `HEADINGS`.
    """

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


def shared(heading: str) -> Callable[..., Decorator]:
    """Return what declares an option below a heading, as `click.option` does."""
    return partial(click.option, cls=SharedOption, heading=heading)


change_option, input_option, new_node_option = shared(CHANGES), shared(INPUT), shared(NEW_NODES)
scheduler_option, server_option, answer_option = shared(SCHEDULER), shared(SERVER), shared(OUTPUT)


def heading_of(parameter: click.Parameter) -> str:
    """Return the heading below which a help has a parameter."""
    if isinstance(parameter, SharedOption):
        return parameter.heading
    return OUTPUT if "--help" in parameter.opts else OWN


def _print_whole_help(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given and isinstance(context.command, WithExamples):
        click.echo(context.command.whole_help(context))
        context.exit()


_help_all = SharedOption(
    ["--help-all"],
    heading=OUTPUT,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_whole_help,
    help="Show the whole message, with every option, and exit.",
)


class PathName(click.types.StringParamType):
    """A text for which a shell offers files; the reader of the file says what is wrong with it."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Have the shell offer files; see `click.ParamType`."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


PATH = PathName()


class WithExamples(click.Command):
    """A command whose help shows how it is called, below its first sentence."""

    examples: tuple[str, ...] = ()

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples or self.examples
        for parameter in self.params:
            if parameter.type == click.STRING and re.search(r"\b(FILE|DIR)\b", parameter.metavar or ""):
                parameter.type = PATH

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of the scheduler that a configuration makes names its file."""
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            from moorage.kube.read.files import source_name

            file = ctx.params.get("config")
            raise error.located(source=source_name(file) if isinstance(file, str) else "") from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, those for help at the end; see `click.Command`."""
        return [*super().get_params(ctx), _help_all]

    def whole_help(self, ctx: click.Context) -> str:
        """Return the help with all texts."""
        return super().get_help(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text and the examples; see `click.Command`."""
        self.format_purpose(formatter)
        _write_text(formatter, inspect.cleandoc(self.help or "").partition("\n\n")[2])

    def format_purpose(self, formatter: click.HelpFormatter) -> None:
        """Write the first paragraph of the text, and the examples."""
        _write_text(formatter, inspect.cleandoc(self.help or "").partition("\n\n")[0])
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")


class GroupedCommand(WithExamples):
    """A command whose help has its options by group."""

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

    def get_help(self, ctx: click.Context) -> str:
        """Return the whole help if it has one screen, else one that only names the shared options."""
        whole = self.whole_help(ctx)
        if whole.count("\n") < SCREEN:
            return whole
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_purpose(formatter)
        groups = self._groups(ctx)
        _explain(formatter, ctx, {OWN: groups.pop(OWN)})
        with formatter.section("Options of several commands, which --help-all explains"):
            for heading, options in groups.items():
                _name(formatter, ctx, heading, options)
        return formatter.getvalue().rstrip("\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; see `click.Command`."""
        _explain(formatter, ctx, self._groups(ctx))

    def _groups(self, ctx: click.Context) -> dict[str, list[click.Parameter]]:
        """Return the parameters that a help shows by heading; an argument without a text is in the usage."""
        shown = [option for option in self.get_params(ctx) if (option.get_help_record(ctx) or ("", ""))[1]]
        return {name: [option for option in shown if heading_of(option) == name] for name in HEADINGS}


class AnsweringCommand(GroupedCommand):
    """A command that ends with an answer, below which are its notes.

    Like kubectl, it exits with 1 if the API server would refuse an object of the change.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [_flag("-q", "quiet", "Say nothing on stderr but errors.", QUIET)]
        self.params += [_flag("-v", "notes", "Show all notes on a terminal, not their number.", VERBOSE)]
        self.params.append(_top_option())

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see `click.Command`."""
        from ..notes_below import notes_below  # with logging, which a help does not need

        with notes_below(ctx.meta):
            code = super().invoke(ctx)
            return code or int(REFUSED in ctx.meta)


def _write_text(formatter: click.HelpFormatter, text: str) -> None:
    if text:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)


def _explain(
    formatter: click.HelpFormatter, ctx: click.Context, groups: Mapping[str, Iterable[click.Parameter]]
) -> None:
    """Write options with their texts below the headings that have some."""
    for heading, options in groups.items():
        if records := [*filter(None, (option.get_help_record(ctx) for option in options))]:
            with formatter.section(heading):
                formatter.write_dl(records)


def _name(
    formatter: click.HelpFormatter, ctx: click.Context, heading: str, options: Sequence[click.Parameter]
) -> None:
    """Write the names of options, if there are any, beside their heading: of a switch the one that changes
    it, and of -o with the forms."""
    words = [f"  {heading.partition(',')[0]}:".ljust(13)]
    for option in options:
        words.append((option.secondary_opts if option.default is True else option.opts)[0])
        words += [option.make_metavar(ctx)] * (option.name == "output")
    if options:
        text = fill(" ".join(words), formatter.width, subsequent_indent=" " * 14, break_on_hyphens=False)
        formatter.write(f"{text}\n")


def _flag(name: str, parameter: str, text: str, key: str) -> click.Option:
    """Return a flag of every command that answers, which its context keeps."""

    def keep(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
        context.meta[key] = is_given

    return SharedOption(
        [name, parameter], heading=OUTPUT, is_flag=True, expose_value=False, callback=keep, help=text
    )


def _top_option() -> click.Option:
    """Return the option for the number of rows, which every command that answers has."""

    def keep(context: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta[TOP] = row_count(context, option, value)

    text = f"Show the first N rows of each table; by default tables share {ROWS} lines, and -o wide has all."
    return SharedOption(
        ["--top"], heading=OUTPUT, metavar=f"N|{ALL}", expose_value=False, callback=keep, help=text
    )


def row_count(context: click.Context, option: click.Parameter, value: str) -> int | None:
    """Parse a number of rows; None stands for ``all``."""
    if value == ALL:
        return None
    if not re.fullmatch("[0-9]{1,9}", value) or not int(value):
        raise click.BadParameter(f"must be a number of at least 1, or {ALL}, not {value!r}", context, option)
    return int(value)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value, which may be repeatable and have several arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _texts(part)


# ---- command groups ----------------------------------------------------------------------------------------
#
# A command with subcommands, which says what they are where none or an unknown one is given.

PLUGIN = "kubectl moorage"
"""The name of the program as a plugin of kubectl: commands then read the cluster of the current context."""


class CommandGroup(WithExamples, click.Group):
    """A group whose errors have one line, and whose help has the whole texts of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `click.Command`."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            ctx.fail(f"give a command of {ctx.command_path}: {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; see `click.Group`."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            near = nearest(name, names) or f"; known are {', '.join(names)}"
            ctx.fail(f"there is no command {name!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands; see `click.Group`."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        texts = [
            (name, command.get_short_help_str(200))
            for name, command in commands.items()
            if command is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(texts)


# ---- decorators --------------------------------------------------------------------------------------------
#
# Options that commands have in common, as decorators.


def all_of(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in this order in its help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def is_given(name: str) -> bool:
    """Whether the option of a parameter is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def output_option(forms: Sequence[str], text: str | None = None) -> Decorator:
    """Return the option ``-o`` of a command that writes these formats, the first one by default; and
    ``--title`` of one that writes pages."""
    output = answer_option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=text
    )
    return all_of(output, _title_option) if "html" in forms else output


def _keep_title(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[TITLE] = value


TITLE = "moorage.title"
"""Where a context keeps the title of a page."""
_title_option = answer_option(
    "--title", expose_value=False, callback=_keep_title, help="The title of a page of -o html."
)


def tie_break_option(text: str) -> Decorator:
    """Return the option ``--tie-break``, with a help that ends with what the default is."""
    choice = click.Choice(["go-heap", "first", "random"])
    question = "How to choose among nodes with equal scores"
    return scheduler_option("--tie-break", type=choice, help=f"{question}; default: {text}")


def some_of(names: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """Return a callback that parses a list of some of these names, between commas."""

    def parse(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
        given = tuple(name.strip() for name in value.split(",") if name.strip())
        for name in given:
            if name not in names:
                message = f"must be some of {first_of(names, 4)}, not {name!r}{nearest(name, names)}"
                raise click.BadParameter(message, context, option)
        return given

    return parse


# ---- number ranges -----------------------------------------------------------------------------------------
#
# Numbers as the values of options, with errors that say which ones are taken.

MANY = 2**31
"""A bound of a whole number that nobody meets."""


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; see `click.ParamType`."""
        return _converted(super().convert, "whole number", self, value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return what ``--help`` shows; see `click.ParamType`."""
        return "N"

    def _describe_range(self) -> str:
        """Return what ``--help`` adds; bounds that nobody meets say nothing."""
        return "" if self.max is not None and self.max >= MANY else _range(self).removeprefix(" of").strip()


def share_of(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Parse a percentage, as a part of 1."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)%", value)
    if match is None:
        raise click.BadParameter(f"must be a percentage such as 80%, not {value!r}", context, option)
    return float(match[1]) / 100


class Number(click.FloatRange):
    """A number within bounds."""

    def _describe_range(self) -> str:
        """Return what ``--help`` adds."""
        return _range(self).removeprefix(" of").strip()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; see `click.ParamType`."""
        return _converted(super().convert, "number", self, value, param, ctx)


def _converted(
    convert: Any,
    noun: str,
    bounds: WholeNumber | Number,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    """Return the number, or fail with a text that names the bounds."""
    try:
        number = convert(value, param, ctx)
        if math.isnan(number):  # it is neither below nor above a bound
            raise click.BadParameter("")
        return number
    except click.BadParameter:
        raise click.BadParameter(f"must be a {noun}{_range(bounds)}, not {value!r}.", ctx, param) from None


def _range(bounds: WholeNumber | Number) -> str:
    """Return what an error says about the bounds of numbers."""
    if bounds.min is None:
        return "" if bounds.max is None else f" of at most {bounds.max}"
    if bounds.max is None:
        return f" above {bounds.min}" if bounds.min_open else f" of at least {bounds.min}"
    return (
        f" {'above' if bounds.min_open else 'from'} {bounds.min}{' and up' * bounds.min_open} to {bounds.max}"
    )


# ---- offered names -----------------------------------------------------------------------------------------
#
# What a shell offers where an option names something of the input: read when the user asks for it.


def offered_nodes(cluster: Cluster) -> Iterable[str]:
    """Return the names of nodes, and ``zone=a`` for those of a zone."""
    return (*(node.name for node in cluster.nodes), *(f"zone={zone}" for zone in offered_zones(cluster)))


def offered_zones(cluster: Cluster) -> Iterable[str]:
    """Return the zones of nodes."""
    from moorage.answers.runs.summary import zone_of

    return filter(None, map(zone_of, cluster.nodes))


def offered_labels(cluster: Cluster) -> Iterable[str]:
    """Return the keys of the labels of nodes."""
    return (key for node in cluster.nodes for key in node.metadata.labels)


def offered_namespaces(cluster: Cluster) -> Iterable[str]:
    """Return the names of namespaces."""
    return (namespace.name for namespace in cluster.namespaces)


def offered_workloads(cluster: Cluster) -> Iterable[str]:
    """Return the workloads, and the pods without one, as options name them: ``deployment/NAMESPACE/NAME``."""
    from moorage.cluster.references import WORKLOADS

    there = (obj for obj in cluster.others if isinstance(obj, tuple(WORKLOADS)))
    listed = [obj for obj in (*there, *cluster.pods) if obj.metadata.controller() is None]
    return (f"{workload.kind.lower()}/{workload.namespace}/{workload.name}" for workload in listed)


def offer(names_in: Callable[[Cluster], Iterable[str]], *others: str) -> Complete:
    """Return what completes an option by names of the files of -f; by none if they cannot be read.

    Parameters
    ----------
    names_in : callable
        Returns the names.
    *others : str
        Words that the option takes beside them.
    """

    def complete(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        return _items((*others, *_names(context.params, names_in)), begun)

    return complete


def offer_contexts(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a context by those of the kubeconfig."""
    from pathlib import Path

    from moorage.kube.read.documents import read_yaml

    default = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube/config")
    names: list[str] = []
    for path in str(context.params.get("kubeconfig") or default).split(os.pathsep):
        try:
            for document in read_yaml(Path(path).read_text(), path):
                names += [entry["name"] for entry in document["contexts"]]
        except Exception:
            continue
    return _items(names, begun)


def _names(options: dict[str, Any], names_in: Callable[[Cluster], Iterable[str]]) -> Iterable[str]:
    """Return names of the files of -f; those of an API server would take too long."""
    if not options.get("files"):
        return ()
    from pathlib import Path

    from moorage.kube import load

    try:
        files = map(Path, options["files"])
        return sorted(
            set(names_in(load(*files, recursive=bool(options.get("recursive")), validate="ignore")))
        )
    except Exception:
        return ()


def _items(names: Iterable[str], begun: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # a shell asks for few of the starts

    return [CompletionItem(name) for name in names if name.startswith(begun)]
