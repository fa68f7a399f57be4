"""The question of ``moorage check``."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from moorage.cluster.verbs import RequestedChange
from moorage.errors import InputError, first_of
from moorage.kube import Cluster, Job
from moorage.kube.apiserver.hidden_texts import hidden_kept
from moorage.kube.apiserver.overlay import HIDDEN_UNCHANGED
from moorage.kube.model.cluster import DecidingRelease
from moorage.kube.model.workload import DaemonSet, Deployment, StatefulSet
from moorage.kube.plain import object_to_dict
from moorage.kube.releases import RELEASES
from moorage.kube.workloads.expand_kinds import suspended_names

from ..findings.finding import told_facts
from ..findings.placements import told_by_run
from ..scheduler import Scheduler
from .check_answer import CheckAnswer
from .gate import Attempts, Compared, Verdict, differing_times, judge, removed_pods, rests_on
from .loaded_cluster import LoadedCluster, PreparedInput, SchedulerSettings, begin
from .new_node_settings import NewNodeSettings
from .refused_later import groups_refused_later
from .simulation import SILENCE, Progress, Simulation, SimulationSetup

if TYPE_CHECKING:
    from ..saved_by_requests import SavedByRequests
    from ..survival import Survival
    from .coming_nodes import ComingNodes

NO_POD = (
    "The input has no pod that should run, so nothing was checked; kubectl get pods -A -o json lists them."
)

_HIDDEN_CHANGED = "The gate passes only if the texts that the dump hides are unchanged, which nobody knows"


class LossQuestion(Struct, frozen=True):
    """Which losses a cluster is to survive; see `Questions.survive`.

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


@dataclass(frozen=True)
class CheckQuestion:
    """Whether every pod that should run has a node.

    Attributes
    ----------
    before, after : Cluster
        Before the change, and with its files; the same one without any. Their releases are set.
    files : sequence of str
        The names of the files that change the cluster.
    changes : sequence of RequestedChange
        Made after the files, in this order.
    coming : ComingNodes or None
        With what nodes come; None where none do.
    new_only : bool
        Whether pods are no failure that have no node without the change, too, nor losses that are none then.
    allowed : collection of str
        Problems that are no failure, by status.
    knows_times : bool
        Whether it is known how long pods take.
    nodes : NewNodeSettings
        Of `coming`.
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
    nodes: NewNodeSettings = field(default_factory=NewNodeSettings)

    def answer(self, stages: Progress = SILENCE) -> CheckAnswer:
        """Return the answer. A gate that passes only if the texts that a dump hides are unchanged does not.

        Parameters
        ----------
        stages : Progress, optional
            Shows the stages: scheduling, judging, losing nodes.

        Raises
        ------
        InputError
            A change is not possible, or a setting is not valid.
        """
        answer, restarts = self._answer(stages), [*_hidden_rollouts(self.after)]
        if not (answer and restarts):
            return answer
        try:
            changed = replace(self, changes=[*restarts, *self.changes], losses=None)._answer()
        except InputError:  # it is no rollout: the API server refuses the restart
            return answer
        text = HIDDEN_UNCHANGED if changed else _HIDDEN_CHANGED
        end = " A rollout of these passes, too." if changed else ""
        warnings = [
            warning.replace(HIDDEN_UNCHANGED, text) + end if warning.startswith(HIDDEN_UNCHANGED) else warning
            for warning in (answer if changed else changed).warnings
        ]
        return replace(answer if changed else changed, warnings=warnings)

    def _answer(self, stages: Progress = SILENCE) -> CheckAnswer:
        files = self.files[0 if self.after.change is None else self.after.change.parts :]
        if self.new_only and not (files or self.changes or self.releases):
            raise InputError(
                "--new-only counts pods of a change alone, and none is given: give a file or an option of a "
                "change, or leave it out"
            )
        attempts, causes, notes = Attempts(), dict[str, str](), list[str]()
        compared = Compared([*files, *(change.text for change in self.changes)])
        if self.releases is None:
            settings: Mapping[str, Any] = self.scheduler.of(self.after)
            setup, waiting = self._setup(settings)
            stages()
            done = setup.run(stages, attempts.over)
        else:
            from .comparison import compare_releases, sides_of_upgrade
            from .upgrade_effects import touched_objects

            stages()
            first, last, notes = sides_of_upgrade(*self.releases, self.scheduler.gates)
            common = structs.replace(self.scheduler, gates="")  # each side has its own
            both = compare_releases((first, last), self.after, common, self.changes, stages=stages)
            waiting = self._begun(common.of(self.before)).waiting
            done, causes = both.after.simulation, both.losses()
            settings = both.before.simulation.setup.settings
            ended = [obj for obj in self.after.ended if not obj.version.is_served(self.releases[1])]
            sides = [each.simulation.setup.settings["feature_gates"] for each in (both.before, both.after)]
            touched = touched_objects(self.after, *sides)
            compared = compared._replace(
                releases=self.releases, lost=len(causes), ended=ended, touched=touched
            )
        before = None
        if self.new_only and waiting and done.lacking:  # where no pod waits, none is lost without a change
            coming = self.coming if self.releases is None else None
            before = SimulationSetup(self.before, settings, coming=coming).run()
        stages()
        verdict = judge(done, waiting, self.allowed, before, causes)
        removed = removed_pods(done, self.before.pods)
        done.rests_on += rests_on(done, removed, len(compared.changes))
        if attempts.depend_on_times(removed) and not self.knows_times:
            done.depends_on = differing_times(
                verdict.passed,
                settings,
                lambda other: judge(self._setup(other)[0].run(), waiting, self.allowed, before).passed,
            )
        verdict = verdict.with_refused_later(groups_refused_later(done, self.before))
        compared = compared._replace(scale_up=done.scale_up, remarks=[*done.lines()])
        verdict = verdict._replace(compared=compared._replace(saved=self._saved(done, settings)))
        stages()
        if self.losses is not None:
            undisturbed = Scheduler(self.before, **settings) if self.new_only else None
            verdict = verdict.with_losses(_survival(done, self.losses, undisturbed, stages), self.allowed)
        warnings = [*notes, *done.warnings(), *self._without_nodes(verdict.failed)]  # losses have made pods
        warnings += self._not_checked(done.scheduler, verdict)
        facts = told_facts([*told_by_run(done), *done.setup.loaded.facts])
        return CheckAnswer(done, verdict, removed, warnings, facts)

    def _saved(self, done: Simulation, settings: Mapping[str, Any]) -> SavedByRequests | None:
        """Return what other requests save; None where no change has them."""
        others = [change for change in self.changes if change.option != "--set-requests"]
        if self.releases is not None or len(others) == len(self.changes):
            return None
        from ..saved_by_requests import saved_by_requests

        before = SimulationSetup(self.after, settings, others, self.coming).run()
        return saved_by_requests(before, done, self.nodes)

    def _not_checked(self, scheduler: Scheduler, verdict: Verdict) -> Iterator[str]:
        """Yield which suspended workloads of the change were not checked; of the input, if nothing was."""
        in_queues = scheduler.ask.queues() is not None
        cluster = self.before if verdict.is_about_pods else Cluster()
        before = suspended_names(cluster.others, cluster.suspended, in_queues)
        jobs: list[Job] = scheduler.client.list(Job)[0]
        now = suspended_names(jobs, [each for each in scheduler.ask.suspended() if not each.why], in_queues)
        if names := [name for name in now if name not in before]:
            named = first_of(names, 3)
            yield f"Not checked, because they are suspended: {named}; --unsuspend lets them run."
        elif not verdict.is_about_pods:
            yield NO_POD

    def _without_nodes(self, failed: int) -> Iterator[str]:
        """Yield for which questions no nodes come, and of which groups none do."""
        nodes, cluster = self.nodes, self.after
        if failed and nodes.autoscale and self.releases is None:
            yield from nodes.without_size(cluster)
        if self.losses is not None and not self.losses.grows:
            yield from nodes.makes_none(cluster, "--survive", can_grow=True)
        if self.releases is not None:
            yield from nodes.makes_none(cluster, "--upgrade-from")

    def _begun(self, settings: Mapping[str, Any]) -> LoadedCluster:
        return begin(self.before, settings, prepared=self.prepared)

    def _setup(self, settings: Mapping[str, Any]) -> tuple[SimulationSetup, set[str]]:
        """Return the cluster with the changes, and what was waiting before them."""
        earlier = self._begun(settings)
        loaded = earlier if self.after is self.before else begin(self.after, settings, earlier, self.changes)
        has_change = bool(self.files or self.changes)
        loaded.decided, loaded.waited = (earlier.decided, earlier.waiting) if has_change else ((), ())
        return SimulationSetup(self.after, settings, self.changes, self.coming, loaded), earlier.waiting


def _hidden_rollouts(cluster: Cluster) -> Iterator[RequestedChange]:
    """Yield the restart of each workload whose manifest has texts in its template where the dump hides them;
    a restart is a rollout of whatever else the manifest changes, too."""
    kinds = {kind.__name__: kind for kind in (Deployment, StatefulSet, DaemonSet)}
    manifests = {}
    for request in cluster.requested:
        value = request.value()
        if value.get("kind") in kinds and not request.is_new:
            meta = value.get("metadata") or {}
            manifests[value["kind"], meta.get("namespace"), meta.get("name")] = value
    for obj in cluster.others if manifests else ():
        manifest = manifests.get((obj.kind, obj.namespace, obj.name))
        if manifest is None or not isinstance(obj, Deployment | StatefulSet | DaemonSet):
            continue
        met, template = list[str](), (manifest.get("spec") or {}).get("template")
        hidden_kept(object_to_dict(obj)["spec"].get("template"), template, met)
        if met and not (isinstance(obj, Deployment) and obj.spec.paused):
            yield RequestedChange("--restart", (f"{obj.kind.lower()}/{obj.namespace}/{obj.name}",))


def _survival(done: Simulation, losses: LossQuestion, before: Scheduler | None, stages: Progress) -> Survival:
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
        progress=lambda ended, of: stages.count(of, lambda: ended),
    )
    try:
        return survive(done.scheduler, question)
    except InputError as error:
        option = {"at_once": "--at-once", "only": "--survive-only"}.get(error.path, "--survive")
        raise InputError(error.message, source=option) from None


def releases_of_upgrade(earlier: str, decides: DecidingRelease) -> tuple[str, str]:
    """Return the release before an upgrade, and the one that decides.

    Raises
    ------
    InputError
        They are one, or in the wrong order.
    """
    order, later = list(RELEASES), decides.version
    hint = "name the later one with --kubernetes-version"
    if earlier == later:
        raise InputError(f"both releases are {later} ({decides.reason}); {hint}")
    if order.index(later) < order.index(earlier):
        conflict = f"Kubernetes {later} decides ({decides.reason}), which is before {earlier}"
        raise InputError(f"{conflict}; {hint}")
    return earlier, later
