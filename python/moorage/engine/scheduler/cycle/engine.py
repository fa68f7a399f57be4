"""Engine: what the scheduling cycles of one profile over the cache need (`cycle.cycle`)."""

from __future__ import annotations

from msgspec.structs import replace

from moorage._core.decide.decider import TieBreak
from moorage._core.decide.plan import Plan
from moorage._core.state.pod_class import Shape
from moorage.engine.framework.plugin.cycle_state import CycleState
from moorage.engine.framework.plugin.handle import FrameworkHandle
from moorage.engine.framework.plugin.interface import FilterPlugin, NominatingInfo, PreFilterPlugin
from moorage.engine.framework.plugin.lazy_attribute import lazy_attribute
from moorage.engine.framework.plugin.status import Status
from moorage.engine.framework.profiles.in_core import CorePostFilter
from moorage.engine.framework.profiles.profile import Profile
from moorage.engine.framework.runtime.runtime import Target, target_of
from moorage.kube.model.pod import Pod

from .diagnosis import Diagnosis
from .node_search import NodeSearch
from .opportunistic_batching import Batching


class Engine(NodeSearch):
    """Runs the scheduling cycles of one profile.

    Parameters
    ----------
    handle : FrameworkHandle
        What the plugins of the profile are handed.
    tie_break : TieBreak
        How one of several nodes with the highest total is chosen.
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100; that of the profile takes precedence.
    seed : int
        Seed of the random tie-break; the low 64 bits count.
    batching : Batching, optional
        Opportunistic batching, shared by all engines of a scheduler; off by default.

    Attributes
    ----------
    number : int
        Index of the profile in the configuration.
    runs_post_filter : bool
        Whether PostFilter is run for pods that fit nowhere. Without it no pod is evicted.

    Raises
    ------
    ValueError
        The percentage is not between 0 and 100.
    """

    def __init__(
        self,
        profile: Profile,
        handle: FrameworkHandle,
        tie_break: TieBreak,
        percentage: int,
        seed: int,
        batching: Batching | None = None,
    ) -> None:
        super().__init__(profile, handle, tie_break, percentage, seed)
        self.runs_post_filter = True
        self.number = 0
        self.batching = batching or Batching(False, self.cache.clock)
        self.signs = self.batching.is_on and bool(self.framework.signer.plugins)

    @lazy_attribute
    def may_leave_out_volumes(self) -> bool:
        """Whether a pod whose volumes fit everywhere can be scheduled as one without volumes."""
        profile = self.profile
        if not (profile.reads_volumes and profile.is_in_core):
            return False
        filters, pre_filters = profile.at(FilterPlugin), profile.at(PreFilterPlugin)
        return all(
            plugin.skips("pre_score") and (plugin not in filters or plugin in pre_filters)
            for plugin in profile.volume_plugins
        )

    def cycle_target(self, pod: Pod, target: Target) -> Target:
        """Return the target by which the cycle of a pod is run.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`Framework.target_of`).

        Returns
        -------
        (int, int, int)
            That of a pod without volumes, where no plugin about volumes rejects or scores any node for the
            pod: these plugins are skipped then.
        """
        asks = self.framework.plugins_of(target) is not self.framework.plugins
        if not (asks and self.may_leave_out_volumes and self.decides_alone(pod)):
            return target
        fits = self.profile.volumes_fit_everywhere(pod, self.framework.all_nodes())
        return target_of(self.cache, pod) if fits else target

    # ---- one cycle -----------------------------------------------------------------------------------------

    def begin_cycle(self, target: Target) -> None:
        """Begin a scheduling cycle: refresh the snapshot of plugins and the resources of classes.

        Parameters
        ----------
        target : (int, int, int)
            Of the pod (`Framework.target_of`).
        """
        plan = self.search.plan_of(target[0])
        if plan is not self.plan:
            self.delegate(plan, self.profile.delegated_resources())
        if self.profile.has_out_of_tree_plugins:
            self.handle.begin_cycle()

    def delegate(self, plan: Plan, names: frozenset[str]) -> None:
        """Set the extended resources that device classes provide in a plan of this engine; see
        `Plan.delegate`."""
        if names is not plan.delegated and names != plan.delegated:
            plan.delegate(names)
            self.search.states.open_scope()

    def passes(self, target: Target, pod: Pod) -> bool:
        """Whether no PreFilter or PreScore plugin rejects the pods of a target.

        Plugins in the core reject malformed selectors and affinity terms of the pod at these points. The
        answer does not depend on the nodes and is remembered.

        Parameters
        ----------
        target : (int, int, int)
            Class of the pods, symbol of spec.nodeName, symbol of the node they are pinned to; 0 for none. The
            profile of the pods is in the core.
        pod : Pod
            Any pod of the target.
        """
        framework = self.framework
        if not self.profile_of(target).may_reject(framework.shape_of(target)):
            return True
        known = self.search.states.state_of(*target)
        if known.passes is None:
            state = framework.state_of(target)
            ran = framework.run_pre_filter_plugins(state, pod)
            scored = framework.run_pre_score_plugins(state, pod, framework.all_nodes())
            known.passes = not ran.error and ran.rejection is None and scored is None
        return known.passes

    def sign(self, pod: Pod) -> bytes | None:
        """Return the signature by which opportunistic batching recognizes equal pods.

        Returns
        -------
        bytes or None
            None for a pod that batching does not handle.
        """
        return self.framework.sign_pod(pod) if self.signs else None

    # ---- why not -------------------------------------------------------------------------------------------

    def post_filter_failure(self, state: CycleState) -> Status | None:
        """Return the Error of the first PostFilter plugin that misses the state which its PreFilter would
        have written; None without one."""
        failures = (plugin.failure(state) for plugin in self.core_post_filters or ())
        return next((status for status in failures if status is not None), None)

    @property
    def core_post_filters(self) -> tuple[CorePostFilter, ...] | None:
        """The PostFilter plugins, where all of them can tell in advance that they cannot help; None where one
        cannot."""
        return self.profile.core_post_filters if self.runs_post_filter else ()

    def may_preempt(self, shape: Shape, potential: int = 1) -> bool:
        """Whether PostFilter could make room for pods of a shape.

        Parameters
        ----------
        shape : Shape
            Of the pods.
        potential : int, optional
            Number of nodes with code Unschedulable, where eviction might help.
        """
        plugins = self.core_post_filters
        return plugins is None or any(plugin.may_preempt(shape, potential) for plugin in plugins)

    def preemption_is_futile(self, diagnosis: Diagnosis) -> bool:
        """Whether PostFilter certainly makes no room for a pod without a nominated node.

        Parameters
        ----------
        diagnosis : Diagnosis
            Of the failed search.
        """
        return not self.may_preempt(diagnosis.shape, diagnosis.potential)

    def with_futile_messages(self, diagnosis: Diagnosis) -> tuple[Diagnosis, NominatingInfo | None]:
        """Return the result of PostFilter for a pod that it cannot help, without running it.

        Parameters
        ----------
        diagnosis : Diagnosis
            Of the failed search.

        Returns
        -------
        diagnosis : Diagnosis
            With the messages of the PostFilter plugins.
        result : NominatingInfo or None
            Clears the nomination where a plugin does so; None leaves it.
        """
        plugins = self.core_post_filters or ()
        answers = [plugin.futile_message(diagnosis.shape, diagnosis.nodes, 0) for plugin in plugins]
        result = NominatingInfo() if any(ends for _, ends in answers) else None
        return replace(diagnosis, futile_plugins=plugins), result
