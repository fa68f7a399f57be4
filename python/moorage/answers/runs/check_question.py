"""The question of ``moorage check``, as a command asks it and as Python does."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from moorage.cluster.verbs import BY_NAME, RequestedChange
from moorage.errors import InputError, nearest
from moorage.kube import Cluster
from moorage.kube.read.deciding_release import deciding_release
from moorage.kube.read.load import load_before_and_after
from moorage.kube.read.python_values import Source
from moorage.kube.releases import release_named
from moorage.kube.workloads.input_facts import facts_of

from ..scheduler import Scheduler
from .check_answer import CheckAnswer
from .gate import Attempts, Compared, differing_times, judge, removed_pods, rests_on
from .loaded_cluster import LoadedCluster, PreparedInput, SchedulerSettings, begin
from .simulation import Progress, Simulation, SimulationSetup, groups_refused_later

if TYPE_CHECKING:
    from ..survival import Survival
    from .coming_nodes import ComingNodes

NO_POD = (
    "The input has no pod that should run, so nothing was checked; kubectl get pods -A -o json lists them."
)


class LossQuestion(Struct, frozen=True):
    """Which losses a cluster is to survive; see `Scheduler.survive`.

    Attributes
    ----------
    seconds : float
        How long sets of several domains are searched, in seconds.
    grows : bool
        Whether nodes come after a loss.
    """

    by: str
    at_once: int = 1
    only: str = ""
    within_budgets: bool = False
    seconds: float = 60
    grows: bool = False


class _Silence:
    """Shows nothing."""

    def __call__(self) -> None:
        pass

    def count(self, total: int, poll: Callable[[], int]) -> None:
        pass


@dataclass(frozen=True)
class CheckQuestion:
    """Whether every pod that should run has a node.

    Attributes
    ----------
    before, after : Cluster
        Before the change, and with its files; the same one without any. Their releases are set.
    scheduler : SchedulerSettings
    files : sequence of str
        The names of the files that change the cluster.
    changes : sequence of RequestedChange
        Made after the files, in this order.
    coming : ComingNodes or None
        With what nodes come; None where none do.
    new_only : bool
        Whether pods that were waiting before are no failure, nor losses that were none.
    allowed : collection of str
        Problems that are no failure, by status.
    releases : (str, str) or None
        Of an upgrade.
    losses : LossQuestion or None
    knows_times : bool
        Whether it is known how long pods take.
    prepared : collection of PreparedInput
    """

    before: Cluster
    after: Cluster
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    files: Sequence[str] = ()
    changes: Sequence[RequestedChange] = ()
    coming: ComingNodes | None = None
    new_only: bool = False
    allowed: Collection[str] = ()
    releases: tuple[str, str] | None = None
    losses: LossQuestion | None = None
    knows_times: bool = False
    prepared: Iterable[PreparedInput] = ()

    def answer(
        self,
        stages: Progress | None = None,
        hints: Callable[[bool], Iterable[str]] = lambda fails: (),
    ) -> CheckAnswer:
        """Return the answer.

        Parameters
        ----------
        stages : Progress, optional
            Shows the stages: scheduling, judging, losing nodes.
        hints : callable, optional
            Returns warnings of the caller, given whether a pod fails.

        Raises
        ------
        InputError
            A change is not possible, or a setting is not valid.
        """
        stages, attempts, causes, notes = stages or _Silence(), Attempts(), dict[str, str](), list[str]()
        compared = Compared([*self.files, *(change.text for change in self.changes)])
        if self.releases is None:
            settings: Mapping[str, Any] = self.scheduler.of(self.after)
            setup, waiting = self._setup(settings)
            stages()
            done = setup.run(stages, attempts.over)
        else:
            from .comparison import compare_releases, sides_of_upgrade

            stages()
            first, last, notes = sides_of_upgrade(*self.releases, self.scheduler.gates)
            common = structs.replace(self.scheduler, gates="")  # each side has its own
            both = compare_releases((first, last), self.after, common, self.changes, stages=stages)
            waiting = self._begun(common.of(self.before)).waiting & both.without_node()
            done, causes = both.after.simulation, both.losses()
            settings = both.before.simulation.setup.settings
            ended = [obj for obj in self.after.ended if not obj.version.is_served(self.releases[1])]
            compared = compared._replace(releases=self.releases, lost=len(causes), ended=ended)
        stages()
        verdict = judge(done, waiting, self.allowed, self.new_only, causes)
        removed = removed_pods(done, self.before.pods)
        done.rests_on += rests_on(done, removed, len(compared.changes))
        if attempts.depend_on_times(removed) and not self.knows_times:
            done.depends_on = differing_times(verdict.passed, settings, self._passes(waiting))
        verdict = verdict.with_refused_later(groups_refused_later(done, self.before.namespaces))
        verdict = verdict._replace(compared=compared._replace(scale_up=done.scale_up, basis=[*done.basis()]))
        stages()
        if self.losses is not None:
            undisturbed = Scheduler(self.before, **settings) if self.new_only else None
            verdict = verdict.with_losses(_survival(done, self.losses, undisturbed), self.allowed)
        warnings = [*notes, *done.warnings(), *hints(verdict.failed > 0)]  # losses have made pods, too
        warnings += [] if verdict.is_about_pods else [NO_POD]
        return CheckAnswer(done, verdict, removed, warnings, facts_of(self.after))

    def _begun(self, settings: Mapping[str, Any]) -> LoadedCluster:
        return begin(self.before, settings, prepared=self.prepared)

    def _setup(self, settings: Mapping[str, Any]) -> tuple[SimulationSetup, Collection[str]]:
        """Return the cluster with the changes, and what was waiting before them."""
        earlier = self._begun(settings)
        loaded = earlier if self.after is self.before else begin(self.after, settings, earlier)
        return SimulationSetup(self.after, settings, self.changes, self.coming, loaded), earlier.waiting

    def _passes(self, waiting: Collection[str]) -> Callable[[Mapping[str, Any]], bool]:
        """Return what tells whether the gate passes with other settings."""
        return lambda settings: (
            judge(self._setup(settings)[0].run(), waiting, self.allowed, self.new_only).passed
        )


def _survival(done: Simulation, losses: LossQuestion, before: Scheduler | None) -> Survival:
    """Return what can be lost."""
    from ..survival import SurvivalQuestion, survive

    end, coming = time.monotonic() + losses.seconds, done.setup.coming
    question = SurvivalQuestion(
        losses.by,
        losses.at_once,
        lambda: time.monotonic() < end,
        only=losses.only,
        within_budgets=losses.within_budgets,
        before=before,
        autoscaling=coming.autoscaling if coming is not None and losses.grows else None,
    )
    try:
        return survive(done.scheduler, question)
    except InputError as error:
        option = {"at_once": "--at-once", "only": "--survive-only"}.get(error.path, "--survive")
        raise InputError(error.message, source=option) from None


# ---- as Python asks it -------------------------------------------------------------------------------------

_OF_LOSSES = {"survive_only": "only", "within_budgets": "within_budgets", "at_once": "at_once"}
_OF_SCHEDULER = {"config": "config", "registry": "registry", "kubernetes_version": "version", "seed": "seed"}
_OF_SCHEDULER |= {"tie_break": "tie_break", "percentage_of_nodes_to_score": "percentage"}
_OF_SCHEDULER |= {"pod_times": "pod_times"}
_OTHERS = ("new_only", "allow", "survive", "time_limit", "upgrade_from", "feature_gates")


def check(cluster: Cluster | Source, *change: Source, **options: Any) -> CheckAnswer:
    """Check that every pod that should run has a node, as ``moorage check`` does; no node comes.

    Parameters
    ----------
    cluster : Cluster or source
        A cluster, or what `load` reads.
    *change : source
        Files or objects that change the cluster.
    **options
        Changes by the names of the verbs, made in this order after the files: ``drain="pool=old"``,
        ``scale=["deploy/web=4", "deploy/api=2"]``, ``taint=("n1", "a=b:NoSchedule")``, ``restart_all=True``.
        new_only, allow, survive, survive_only, within_budgets, at_once, time_limit (in seconds) and
        upgrade_from are those of the command; kubernetes_version, feature_gates, config, registry, seed,
        tie_break, percentage_of_nodes_to_score and pod_times those of the scheduler.

    Returns
    -------
    CheckAnswer
        False if the gate fails; its text is the table of the command, and its document ``-o json``.

    Raises
    ------
    InputError
        A source or a change is not valid, or there is no such option.
    """
    known = {*_OF_LOSSES, *_OF_SCHEDULER, *_OTHERS}
    changes = [*_changes({name: value for name, value in options.items() if name not in known})]
    if change:
        first = cluster.to_dict() if isinstance(cluster, Cluster) else cluster
        before, after = load_before_and_after(first, *change)
    elif isinstance(cluster, Cluster):
        before = after = cluster
    else:
        before, after = load_before_and_after(cluster)
    named = options.get("kubernetes_version")
    for each in (before, after):
        each.release = deciding_release(each, None if named is None else release_named(named).version)
    assert after.release is not None
    gates = (f"{name}={str(value).lower()}" for name, value in options.get("feature_gates", {}).items())
    given = {_OF_SCHEDULER[name]: value for name, value in options.items() if name in _OF_SCHEDULER}
    earlier, losses = options.get("upgrade_from"), None
    if (by := options.get("survive")) is not None:
        if not isinstance(by, str):
            raise InputError(f'survive takes "node", "zone" or a label of nodes, not {by!r}')
        more = {_OF_LOSSES[name]: value for name, value in options.items() if name in _OF_LOSSES}
        losses = LossQuestion(by, seconds=options.get("time_limit", 60), **more)
    question = CheckQuestion(
        before,
        after,
        SchedulerSettings(gates=",".join(gates), **given),
        [str(source) if isinstance(source, str) else "objects" for source in change],
        changes,
        new_only=options.get("new_only", False),
        allowed=options.get("allow", ()),
        releases=None if earlier is None else (release_named(earlier).version, after.release.version),
        losses=losses,
        knows_times="pod_times" in options,
    )
    return question.answer()


def _changes(options: dict[str, Any]) -> Iterator[RequestedChange]:
    """Yield the changes of options with the names of verbs."""
    for name, value in options.items():
        verb = BY_NAME.get(name.replace("_", "-"))
        if verb is None:
            verbs = (known.replace("-", "_") for known in BY_NAME)
            raise InputError(f"check has no option {name}{nearest(name, [*verbs, *_OTHERS])}")
        if not verb.words:
            yield from [RequestedChange(f"--{verb.name}", ())] * bool(value)
            continue
        listed = value if isinstance(value, list) else [value]
        for words in listed:
            given = tuple(map(str, words)) if isinstance(words, tuple) else (words,)
            if len(given) != verb.words or not all(isinstance(word, str) for word in given):
                raise InputError(f"{name} takes {verb.metavar}, not {words!r}")
            yield RequestedChange(f"--{verb.name}", given)
