"""The verbs of a change: one table for options of commands, alternatives of comparisons, and timelines.

What a verb does, the method of `ClusterChanges` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moorage.errors import InputError, either, first_of, located
from moorage.lazy import NamedTuple

if TYPE_CHECKING:
    from .change import Change
    from .changing_scheduler import ChangingScheduler

NODES = "NODE|LABEL=VALUE"
ALLOWABLE = ("gated", "other-scheduler", "skipped-kind", "not-rolled-out", "evicted", "queued")
"""What may become of pods and be no failure of a gate, by status."""


class ChangeVerb(NamedTuple):
    """A verb of a change.

    Attributes
    ----------
    method : str
        Of `ClusterChanges`, which makes the change.
    metavar : str
        The words that follow its name in a command, with spaces between them.
    read : callable
        Returns the arguments of the method, from the words of a command; with a list of nodes for `NODES`.
    field : str
        The field of an event that has what the method takes besides its first argument.
    word : str
        Its name in commands, if that is not the method's.
    kinds : tuple of str
        Those that it is about; without an object of them it has no effect.
    idle : str
        Why it has no effect where there are such objects.
    event : str
        Its name in timelines, if that is not the method's.
    is_joint : bool
        Whether it happens at one moment to all nodes for which it is given in a row.
    """

    method: str
    metavar: str
    help: str
    read: Callable[..., Sequence[Any]] = lambda *words: words
    field: str = ""
    word: str = ""
    kinds: tuple[str, ...] = ()
    idle: str = "it has this already"
    event: str = ""
    is_joint: bool = False

    @property
    def name(self) -> str:
        """As commands have it, without dashes in front."""
        return self.word or self.method.replace("_", "-")

    @property
    def words(self) -> int:
        """How many words follow the name."""
        return len(self.metavar.split())

    @property
    def is_of_workloads(self) -> bool:
        """Whether its first argument names an object, or selects workloads."""
        return self.metavar.startswith(("TARGET", "NODE|KIND/NAME"))

    @property
    def is_of_nodes(self) -> bool:
        """Whether its first argument selects nodes."""
        return self.metavar.startswith(NODES)

    def make(self, scheduler: ChangingScheduler, *arguments: Any, **named: Any) -> Change:
        """Make the change; the arguments are those of the method."""
        change: Change = getattr(scheduler.change, self.method)(*arguments, **named)
        return change


def _copies(text: str) -> tuple[int, str]:
    match = re.fullmatch(r"([^,=]+)=([0-9]{1,9})(,.*)?", text)
    if match is None:
        raise InputError("must be NODE=N[,zone=ZONE][,LABEL=VALUE…] with a whole number N", obj=text)
    return int(match[2]), match[1] + (match[3] or "")


_SURGE, _UNAVAILABLE = "surge", "max-unavailable"


_NUMBER = "[0-9]{1,6}%?"


def _with_surge(nodes: list[str], text: str) -> tuple[list[str], *tuple[int | str, ...]]:
    def number(given: str) -> int | str:
        return given if given.endswith("%") else int(given)

    if re.fullmatch(_NUMBER, text) is not None:
        return nodes, number(text)
    pairs = [pair.partition("=") for pair in text.split(",")]
    numbers = {name: number(given) for name, _, given in pairs if re.fullmatch(_NUMBER, given)}
    if len(numbers) < len(pairs) or not numbers.keys() <= {_SURGE, _UNAVAILABLE}:
        wanted = f"a number or percentage of nodes that come first, or {_SURGE}=N,{_UNAVAILABLE}=N"
        raise InputError(f"must be {wanted}, not {text!r}")
    return nodes, numbers.get(_SURGE, 0), numbers.get(_UNAVAILABLE, 0)


def _replicas(text: str) -> tuple[str, int | str]:
    match = re.fullmatch(r"(.+)=([0-9]{1,9})(%?)", text)
    if match is None:
        raise InputError("must be TARGET=N or TARGET=N% with a whole number N", obj=text)
    return match[1], f"{match[2]}%" if match[3] else int(match[2])


def _bound(bound: str) -> tuple[str]:
    if bound not in ("min", "max"):
        raise InputError(f"must be min or max, not {bound!r}")
    return (bound,)


VERBS = (
    ChangeVerb(
        "add_nodes",
        "NODE=N[,zone=ZONE][,LABEL=VALUE…]",
        "Add N copies of NODE, in its zone or in ZONE, with other labels.",
        _copies,
        idle="it adds no node",
    ),
    ChangeVerb(
        "remove_nodes",
        NODES,
        "Remove nodes and the pods on them. zone=a selects by the topology label.",
        event="leave",
        is_joint=True,
    ),
    ChangeVerb(
        "fail_zone",
        "ZONE|LABEL=VALUE",
        "Remove all nodes of a zone, or with a label, and the pods on them; none like these comes.",
        is_joint=True,
    ),
    ChangeVerb("cordon", NODES, "Make nodes unschedulable."),
    ChangeVerb("uncordon", NODES, "Make nodes schedulable."),
    ChangeVerb(
        "drain",
        NODES,
        "Cordon nodes and evict their pods, as far as disruption budgets allow.",
        is_joint=True,
    ),
    ChangeVerb(
        "upgrade_nodes",
        f"{NODES} N|surge=N,max-unavailable=N",
        "Replace nodes by copies, N or N% new ones first: drain a node, remove it, add the next. With "
        "max-unavailable, surge and so many nodes more are drained together, as in the pools of providers.",
        _with_surge,
    ),
    ChangeVerb(
        "taint",
        f"{NODES} TAINT",
        "Taint nodes: KEY=VALUE:EFFECT, or KEY- to remove a taint.",
        field="with",
        is_joint=True,
    ),
    ChangeVerb(
        "label", "NODE|KIND/NAME LABEL", "Label an object: KEY=VALUE, or KEY- to remove it.", field="with"
    ),
    ChangeVerb(
        "scale",
        "TARGET=N|N%",
        "Set the replicas of workloads: deploy/web=12, or 150% of today's; TARGET is KIND/NAME, "
        "KIND/NAMESPACE/NAME, namespace/NAME (all in it), a label selector or '*'.",
        _replicas,
        "replicas",
    ),
    ChangeVerb(
        "restart",
        "TARGET",
        "Restart workloads, as kubectl rollout restart does; TARGET is as for scale.",
    ),
    ChangeVerb(
        "restart_all",
        "",
        "Restart all workloads one after the other; each needs room for its surge.",
        kinds=("Deployment", "StatefulSet", "DaemonSet"),
        idle="",  # each has a restart
    ),
    ChangeVerb(
        "autoscale_to",
        "min|max",
        "Scale all targets of HPAs and KEDA to their minimum or maximum of replicas.",
        _bound,
        word="hpa",
        kinds=("HorizontalPodAutoscaler", "ScaledObject"),
        idle="every target has these replicas already",
    ),
    ChangeVerb(
        "set_requests",
        "FILE",
        "Set the requests of containers to those of a file: VPAs, or CSV or JSON with "
        "workload, container, cpu and memory.",
        idle="the containers have these requests already",
    ),
    ChangeVerb(
        "run_cron_jobs",
        "",
        "Run each CronJob once, all at the same time.",
        word="cronjobs",
        kinds=("CronJob",),
        idle="each is suspended",
    ),
    ChangeVerb(
        "unsuspend",
        "",
        "Let suspended Jobs, JobSets and the like run, but those in queues of Kueue.",
        idle="nothing is suspended",
    ),
)
EVENTS = {verb.event or verb.method: verb for verb in VERBS}
BY_NAME = {verb.name: verb for verb in VERBS}


class RequestedChange(NamedTuple):
    """A change as a command asks for it.

    Attributes
    ----------
    option : str
        As ``--drain``.
    namespace : str
        Of objects that name none; targets that select workloads mean those of it alone.
    more : tuple of str
        Other nodes or zones to which it happens at the same moment, in place of the first word.
    """

    option: str
    words: tuple[str, ...]
    namespace: str = ""
    more: tuple[str, ...] = ()

    @property
    def verb(self) -> ChangeVerb:
        """What it does."""
        return BY_NAME[self.option.removeprefix("--")]

    @property
    def text(self) -> str:
        """As on the command line."""
        others = (self._replace(words=(each, *self.words[1:]), more=()).text for each in self.more)
        return " ".join((self.option, *self.words, *others))

    def text_about(self, node: str) -> str:
        """As on the command line; if it names the node, without the others."""
        is_named = node in (*self.words[:1], *self.more)
        return (self._replace(words=(node, *self.words[1:]), more=()) if is_named else self).text

    def make(self, scheduler: ChangingScheduler, nodes: Container[str]) -> Change:
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
        from .references import select_nodes

        with located(source=self.option):
            verb, words = self.verb, list[Any](self.words)
            if verb.is_joint:
                words[0] = [words[0], *self.more]
            if verb.is_of_nodes:
                words[0] = [node.name for node in select_nodes(scheduler.client, words[0], nodes)]
            arguments = [*verb.read(*words)]
            own: dict[str, Any] = {"namespace": self.namespace} if verb.is_of_workloads else {}
            if verb.method == "drain":
                own = {"wait": True}  # as kubectl does
            return verb.make(scheduler, *arguments, **own)

    def left_as_is(self, effect: Change, scheduler: ChangingScheduler) -> list[str]:
        """Return a warning for each reason why the change has left objects as they are, but for pods, and
        what it notes; or one that the whole change has no effect.

        Parameters
        ----------
        scheduler : ChangingScheduler
            After the change.
        """
        from moorage.store import kind_named

        kept = [(name, why) for name, why in effect.kept.items() if not name.startswith("Pod ")]
        if effect.kept or effect.created or effect.changed or effect.deleted:
            from moorage.grouped import grouped  # a help needs none

            alike = grouped((why, name) for name, why in kept).items()
            texts = (f"{self.text} has no effect on {first_of(names, 3)}: {why}." for why, names in alike)
            return [*texts, *effect.notes]
        kinds, why = self.verb.kinds, self.verb.idle
        if kinds and not any(scheduler.client.list(kind_named(kind))[0] for kind in kinds):
            why = f"the input has no {either(kinds)}"
        return [f"{self.text} has no effect: {why}."]


def joined(changes: Iterable[RequestedChange]) -> list[RequestedChange]:
    """Return changes in which a verb that is given for several nodes in a row is one change. One after the
    other, a pod that comes again after the first could be lost by the next."""
    together = list[RequestedChange]()
    for change in changes:
        last = together[-1] if together and change.verb.is_joint else None
        if (
            last is not None
            and (last.option, last.words[1:]) == (change.option, change.words[1:])
            and change.words[0] not in (last.words[0], *last.more)  # the second has no effect, and says so
        ):
            together[-1] = last._replace(more=(*last.more, change.words[0]))
        else:
            together.append(change)
    return together


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
    parts = [part.split() for part in text.split(";")]
    first = BY_NAME.get(parts[0][0]) if parts[0] else None
    if first is None or (len(parts[0]) == 1 and first.words):
        return []
    changes = []
    for words in parts:
        verb = BY_NAME.get(words[0]) if words else None
        if verb is None or len(words) != verb.words + 1:
            raise InputError(f"not a change: {' '.join(words)!r}", obj=text)
        changes.append(RequestedChange(f"--{verb.name}", tuple(words[1:])))
    return changes
