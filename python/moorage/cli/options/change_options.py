"""Options that change the cluster before the run, in the order in which they are given."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from moorage.cluster.verbs import BY_NAME, VERBS, RequestedChange
from moorage.lazy import NamedTuple

from .option_types import (
    CHANGES,
    INPUT,
    NEW_NODES,
    SCHEDULER,
    AnsweringCommand,
    WholeNumber,
    change_option,
    heading_of,
    offer,
    offered_nodes,
    offered_workloads,
    offered_zones,
)

if TYPE_CHECKING:
    from moorage.answers.runs.coming_nodes import ComingNodes
    from moorage.answers.runs.simulation import SimulationSetup
    from moorage.answers.scheduler import Scheduler
    from moorage.kube import Cluster

    from .option_types import Complete

_GIVEN = "moorage.given"


class Given(NamedTuple):
    """An option as it was given on the command line: its parameter, how it is written, and its arguments."""

    parameter: click.Option
    option: str
    words: tuple[str, ...]


class ChangingCommand(AnsweringCommand):
    """A command that knows in which order options were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `click.Command`."""
        try:
            values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.BadOptionUsage as error:
            error.ctx = ctx  # whose options have a form, which the error tells
            raise
        ctx.meta[_GIVEN] = [*_given(values, order)]
        for _, option, words in ctx.meta[_GIVEN]:
            if any(word.startswith("--") for word in words if isinstance(word, str)):
                number = "an argument" if len(words) == 1 else f"{len(words)} arguments"
                raise click.BadOptionUsage(option, f"Option {option!r} requires {number}", ctx)
        return super().parse_args(ctx, args)


def _given(values: Mapping[str, Any], order: Iterable[click.Parameter]) -> Iterator[Given]:
    """Yield options as they were given; of one that is not repeatable its last value, at its first place."""
    left = {name: iter(value if isinstance(value, list) else [value]) for name, value in values.items()}
    for option in order:
        name = option.name or ""
        counted = isinstance(option, click.Option) and option.count
        value = () if counted else next(left[name], None)
        if value is not None and isinstance(option, click.Option):
            words = () if isinstance(value, bool) else (value,) if isinstance(value, str) else tuple(value)
            yield Given(option, (option.secondary_opts if value is False else option.opts)[0], words)


def command_alike(
    question: Sequence[str], changes: Iterable[RequestedChange] = (), asked_by: str = ""
) -> str:
    """Return the command that asks about the cluster of the current command.

    Parameters
    ----------
    question : sequence of str
        Its first words.
    changes : iterable of RequestedChange, optional
        Beside those of the current command.
    asked_by : str, optional
        An option of the current command that the question replaces; see `given_words`.
    """
    given = [
        option
        for option in click.get_current_context().meta[_GIVEN]
        if option.option != asked_by
        and heading_of(option.parameter) in (CHANGES, INPUT, NEW_NODES, SCHEDULER)
        and option.parameter.name != "seeds"
    ]
    words = [word for entry in (*given, *changes) for word in (entry.option, *entry.words)]
    return shlex.join(["moorage", *question, *words])


def given_words(option: str) -> list[str]:
    """Return the arguments of an option of the current command, each once."""
    given = click.get_current_context().meta[_GIVEN]
    return [*dict.fromkeys(word for each in given if each.option == option for word in each.words)]


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the function of a `ChangingCommand` with the options of changes, for `requested_changes`."""
    for verb in reversed(VERBS):
        if verb.words:
            taken: dict[str, Any] = {"multiple": True, "nargs": verb.words, "metavar": verb.metavar}
            taken["shell_complete"] = _offered(verb.metavar)
        else:
            taken = {"count": True}
        command = change_option(f"--{verb.name}", help=verb.help, **taken)(command)
    return pod_times_option(command)


def _offered(metavar: str) -> Complete | None:
    """Return what completes an option, by what its metavar begins with; None for files and numbers."""
    begins = {
        "NODE": offer(offered_nodes),
        "ZONE": offer(offered_zones),
        "TARGET": offer(offered_workloads),
    }
    return next((complete for word, complete in begins.items() if metavar.startswith(word)), None)


pod_times_option = change_option(
    "--pod-times",
    nargs=3,
    type=WholeNumber(0, 86400),
    metavar="START READY STOP",
    default=(2, 8, 5),
    show_default=True,
    help="Seconds that a pod takes to start, then to become ready, and to stop after its deletion.",
)
after_run_option = click.option(
    "--after-run",
    is_flag=True,
    help="Place the pending pods first, those of a second -f, too. An option of a change always does so, "
    "because its pods need room too; a drain begins with the change.",
)


def place_first(setup: SimulationSetup, scheduler: Scheduler, after_run: bool) -> bool:
    """Place the pending pods, which hold no room, before the current command is answered: if it says so,
    makes a change, or has evicted pods. Return whether that is so."""
    if is_run := after_run or bool(requested_changes()) or setup.loses_pods:
        setup.place(scheduler)
    return is_run


def requested_changes() -> list[RequestedChange]:
    """Return the changes that the current command asks for, in the order given."""
    context = click.get_current_context()
    given, namespace = context.meta[_GIVEN], context.params.get("namespace") or ""
    return [
        RequestedChange(option.option, option.words, namespace)
        for option in given
        if option.option.removeprefix("--") in BY_NAME
    ]


def setup_of(options: Mapping[str, Any], grows: bool = True) -> SimulationSetup:
    """Return the cluster of the current command, with its changes.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options` and `scheduler_options`, and of `node_source_options` if it `grows`.
    grows : bool, optional
        Whether nodes come for pods that fit nowhere.
    """
    from .inputs import load_input, scheduler_settings
    from .new_node_options import coming_nodes

    cluster = load_input(options)
    settings = scheduler_settings(options, cluster)
    return changed_setup(cluster, settings, coming_nodes(options, cluster) if grows else None)


def changed_setup(
    cluster: Cluster, settings: Mapping[str, Any], coming: ComingNodes | None = None
) -> SimulationSetup:
    """Return a cluster with the changes of the current command."""
    from moorage.answers.runs.simulation import SimulationSetup

    from .inputs import begun

    changes = requested_changes()
    return SimulationSetup(cluster, settings, changes, coming, begun(cluster, settings, changes))
