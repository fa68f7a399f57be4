"""Options that change the cluster before the run, in the order in which they are given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from moorage.errors import InputError, either, located

from .option_types import (
    CHANGES,
    GROUPS,
    NEW_NODES,
    AnsweringCommand,
    WholeNumber,
    offer,
    offered_nodes,
    offered_workloads,
    offered_zones,
)

if TYPE_CHECKING:
    from moorage.answers.scheduler import Scheduler
    from moorage.cluster.change import Change

    from .option_types import Complete

NODES = "NODE|LABEL=VALUE"
_GIVEN = "moorage.given"


class ChangeOption(NamedTuple):
    """An option that changes the cluster.

    Attributes
    ----------
    name : str
        As ``--drain``.
    metavar : str
    help : str
    words : int
        Number of arguments; none for a flag.
    """

    name: str
    metavar: str
    help: str
    words: int = 1


OPTIONS = (
    ChangeOption(
        "--add-nodes",
        "NODE=N[,zone=ZONE][,LABEL=VALUE…]",
        "Add N copies of NODE, in its zone or in ZONE, with other labels.",
    ),
    ChangeOption(
        "--remove-nodes", NODES, "Remove nodes and the pods on them. zone=a selects by the topology label."
    ),
    ChangeOption("--fail-zone", "ZONE", "Remove all nodes of a zone and the pods on them."),
    ChangeOption("--cordon", NODES, "Make nodes unschedulable."),
    ChangeOption("--uncordon", NODES, "Make nodes schedulable."),
    ChangeOption("--drain", NODES, "Cordon nodes and evict their pods, as far as disruption budgets allow."),
    ChangeOption(
        "--upgrade-nodes",
        f"{NODES} SURGE",
        "Replace nodes by copies one at a time, SURGE new ones first: drain a node, remove it, add the next.",
        2,
    ),
    ChangeOption("--taint", f"{NODES} TAINT", "Taint nodes: KEY=VALUE:EFFECT, or KEY- to remove a taint.", 2),
    ChangeOption("--label", "NODE|KIND/NAME LABEL", "Label an object: KEY=VALUE, or KEY- to remove it.", 2),
    ChangeOption("--scale", "KIND/NAME=N", "Set the replicas of a workload, such as deploy/web=12."),
    ChangeOption("--restart", "KIND/NAME", "Restart a workload, as kubectl rollout restart does."),
    ChangeOption(
        "--restart-all", "", "Restart all workloads one after the other; each needs room for its surge.", 0
    ),
    ChangeOption(
        "--hpa", "min|max", "Scale all targets of HPAs and KEDA to their minimum or maximum of replicas."
    ),
    ChangeOption(
        "--set-requests",
        "FILE",
        "Set the requests of containers to those of a file: VPAs, or CSV or JSON with "
        "workload, container, cpu and memory.",
    ),
    ChangeOption("--cronjobs", "", "Run each CronJob once, all at the same time.", 0),
    ChangeOption(
        "--unsuspend", "", "Let suspended Jobs, JobSets and the like run, as if Kueue had admitted them.", 0
    ),
)


class RequestedChange(NamedTuple):
    """A change that the command line asks for.

    Attributes
    ----------
    option : str
        As ``--drain``.
    words : tuple of str
        Its arguments.
    """

    option: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """As on the command line."""
        return " ".join((self.option, *self.words))

    def make(self, scheduler: Scheduler, nodes: Container[str]) -> Change:
        """Make the change.

        Parameters
        ----------
        nodes : container of str
            The names of the nodes before the first change of the command: a selector means these alone, in
            whatever order the changes are given.

        Raises
        ------
        InputError
            The change is not possible; nothing has changed.
        """
        from moorage.cluster.change import select_nodes

        with located(source=self.option):
            words: Sequence[str | list[str]] = self.words
            if self.option in _ON_NODES:
                selected = select_nodes(scheduler.client, self.words[0], nodes)
                words = [[node.name for node in selected], *self.words[1:]]
            return _MAKERS[self.option](scheduler, *words)


_ON_NODES = frozenset(option.name for option in OPTIONS if option.metavar.startswith(NODES))


def _add_nodes(scheduler: Scheduler, text: str) -> Change:
    match = re.fullmatch(r"([^,=]+)=([0-9]{1,9})(,.*)?", text)
    if match is None:
        raise InputError("must be NODE=N[,zone=ZONE][,LABEL=VALUE…] with a whole number N", obj=text)
    return scheduler.add_nodes(int(match[2]), match[1] + (match[3] or ""))


def _upgrade_nodes(scheduler: Scheduler, nodes: list[str], surge: str) -> Change:
    if re.fullmatch("[0-9]{1,6}", surge) is None:
        raise InputError(f"the number of new nodes that come first must be a whole number, not {surge!r}")
    return scheduler.upgrade_nodes(nodes, int(surge))


def _scale(scheduler: Scheduler, text: str) -> Change:
    match = re.fullmatch(r"(.+)=([0-9]{1,9})", text)
    if match is None:
        raise InputError("must be KIND/NAME=N with a whole number N", obj=text)
    return scheduler.scale(match[1], int(match[2]))


def _label(scheduler: Scheduler, reference: str, label: str) -> Change:
    return scheduler.label(reference if "/" in reference else f"node/{reference}", label)


def _autoscale(scheduler: Scheduler, bound: str) -> Change:
    if bound not in ("min", "max"):
        raise InputError(f"must be min or max, not {bound!r}")
    return scheduler.autoscale_to("min" if bound == "min" else "max")


def left_as_is(change: RequestedChange, effect: Change, scheduler: Scheduler) -> list[str]:
    """Return a warning about each object that a change has left as it is, but for pods, and what it notes; or
    one that the whole change has no effect.

    Parameters
    ----------
    scheduler : Scheduler
        After the change.
    """
    from moorage.store import kind_named

    kept = [(name, why) for name, why in effect.kept.items() if not name.startswith("Pod ")]
    if effect.kept or effect.created or effect.changed or effect.deleted:
        return [*(f"{change.text} has no effect on {name}: {why}." for name, why in kept), *effect.notes]
    kinds, otherwise = _WITHOUT_EFFECT.get(change.option, ((), "it has this already"))
    if kinds and not any(scheduler.client.list(kind_named(kind))[0] for kind in kinds):
        why = f"the input has no {either(kinds)}"
    else:
        why = otherwise
    return [f"{change.text} has no effect: {why}."]


_WITHOUT_EFFECT: dict[str, tuple[tuple[str, ...], str]] = {
    "--restart-all": (("Deployment", "StatefulSet", "DaemonSet"), ""),  # each has a restart
    "--hpa": (("HorizontalPodAutoscaler", "ScaledObject"), "every target has these replicas already"),
    "--set-requests": ((), "the containers have these requests already"),
    "--cronjobs": (("CronJob",), "each is suspended"),
    "--unsuspend": ((), "nothing is suspended"),
}
"""Which kinds a change is about, and why it has no effect where there are such objects."""


_MAKERS: dict[str, Callable[..., Change]] = {
    "--add-nodes": _add_nodes,
    "--remove-nodes": lambda scheduler, nodes: scheduler.remove_nodes(nodes),
    "--fail-zone": lambda scheduler, zone: scheduler.fail_zone(zone),
    "--cordon": lambda scheduler, nodes: scheduler.cordon(nodes),
    "--uncordon": lambda scheduler, nodes: scheduler.uncordon(nodes),
    "--drain": lambda scheduler, nodes: scheduler.drain(nodes),
    "--upgrade-nodes": _upgrade_nodes,
    "--taint": lambda scheduler, nodes, taint: scheduler.taint(nodes, taint),
    "--label": _label,
    "--scale": _scale,
    "--restart": lambda scheduler, reference: scheduler.restart(reference),
    "--restart-all": lambda scheduler: scheduler.restart_all(),
    "--hpa": _autoscale,
    "--set-requests": lambda scheduler, file: scheduler.set_requests(file),
    "--cronjobs": lambda scheduler: scheduler.run_cron_jobs(),
    "--unsuspend": lambda scheduler: scheduler.unsuspend(),
}


class Given(NamedTuple):
    """An option as it was given on the command line: its parameter, how it is written, and its arguments."""

    name: str
    option: str
    words: tuple[str, ...]


class ChangingCommand(AnsweringCommand):
    """A command that knows in which order options were given."""

    changes = frozenset(option.name.removeprefix("--").replace("-", "_") for option in OPTIONS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `click.Command`."""
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_GIVEN] = [*_given(values, order)]
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
            yield Given(name, (option.secondary_opts if value is False else option.opts)[0], words)


def explain_command(target: str, changes: Iterable[RequestedChange] = ()) -> str:
    """Return the command that explains a target in the cluster of the current command.

    Parameters
    ----------
    changes : iterable of RequestedChange, optional
        Beside those of the current command.
    """
    taken = {*GROUPS[CHANGES], *GROUPS["Input"], *GROUPS["Scheduler"]} - {"upgrade_from"}
    taken |= {*GROUPS[NEW_NODES]} - {"draws"}
    taken |= ChangingCommand.changes
    given = [option for option in click.get_current_context().meta[_GIVEN] if option.name in taken]
    words = [word for entry in (*given, *changes) for word in (entry.option, *entry.words)]
    return shlex.join(["moorage", "explain", target, *words])


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the function of a `ChangingCommand` with the options of changes, for `requested_changes`."""
    for option in reversed(OPTIONS):
        if option.words:
            taken: dict[str, Any] = {"multiple": True, "nargs": option.words, "metavar": option.metavar}
            taken["shell_complete"] = _offered(option.metavar)
        else:
            taken = {"count": True}
        command = click.option(option.name, help=option.help, **taken)(command)
    return pod_times_option(command)


def _offered(metavar: str) -> Complete | None:
    """Return what completes an option, by what its metavar begins with; None for files and numbers."""
    begins = {
        "NODE": offer(offered_nodes),
        "ZONE": offer(offered_zones),
        "KIND/NAME": offer(offered_workloads),
    }
    return next((complete for word, complete in begins.items() if metavar.startswith(word)), None)


pod_times_option = click.option(
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
    help="Place the pending pods of the cluster first. With a change they always are, because "
    "the pods that it makes need room too.",
)


def places_first(after_run: bool) -> bool:
    """Tell whether the pending pods are placed before the question of the current command is answered.

    A change may make pods, or evict some, and these hold no room as long as they are pending.

    Parameters
    ----------
    after_run : bool
        Whether the command says so.
    """
    return after_run or bool(requested_changes())


def requested_changes() -> list[RequestedChange]:
    """Return the changes that the current command asks for, in the order given."""
    given = click.get_current_context().meta[_GIVEN]
    return [
        RequestedChange(option.option, option.words)
        for option in given
        if option.name in ChangingCommand.changes
    ]


def parse_changes(text: str) -> list[RequestedChange]:
    """Parse changes in one text: ``drain n1; scale deploy/web=4``.

    Parameters
    ----------
    text : str
        Names of options without dashes, with their arguments, separated by semicolons.

    Returns
    -------
    list of RequestedChange
        Empty if the text does not begin with the name of an option, and a space if it takes arguments.

    Raises
    ------
    InputError
        A change is not known, or has not so many arguments.
    """
    known = {option.name.removeprefix("--"): option for option in OPTIONS}
    parts = [part.split() for part in text.split(";")]
    first = known.get(parts[0][0]) if parts[0] else None
    if first is None or (len(parts[0]) == 1 and first.words):
        return []
    changes = []
    for words in parts:
        option = known.get(words[0]) if words else None
        if option is None or len(words) != option.words + 1:
            raise InputError(f"not a change: {' '.join(words)!r}", obj=text)
        changes.append(RequestedChange(option.name, tuple(words[1:])))
    return changes
