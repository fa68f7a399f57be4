"""Dry runs in the core, for pods that only kernels of the core decide about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from moorage._core.preempt.dry_runs import NO_VICTIMS as NOBODY
from moorage.errors import MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.extender import Victims
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import FilterPlugin, PreFilterPlugin
from moorage.framework.plugin.status import Code, Status
from moorage.framework.profiles.in_core import NativePlugin, VolumePlugin
from moorage.framework.runtime.kernels import place_of, rejection
from moorage.framework.runtime.runtime import Framework
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget

from .eligibility import NO_VICTIM, NO_VICTIMS
from .pick import Candidate


def framework_of(
    handle: FrameworkHandle, state: CycleState, pod: Pod, nodes: Sequence[str]
) -> Framework | None:
    """Whose kernels make the dry runs on these nodes; None where a plugin outside the core filters there, or
    hears of each victim. Plugins about volumes do not, where those of the pod fit whoever leaves."""
    framework = handle.framework
    if framework is not None and framework.without_volumes is not None:
        rows = np.array([_row(handle, name) for name in nodes], dtype=np.int32)
        view, skipped = framework.nodes(rows), state.skip_filter_plugins
        at_work = [p for p in framework.filters if isinstance(p, VolumePlugin) and p.name not in skipped]
        if all(plugin.fits_everywhere(state, pod, view) for plugin in at_work):
            framework = framework.without_volumes
    if framework is None or framework.kernels is None or not framework.kernels.dry_runs.suits:
        return None
    return framework if all(p.in_core for p in framework.profile.at(PreFilterPlugin)) else None


def dry_run_in_core(
    framework: Framework,
    handle: FrameworkHandle,
    state: CycleState,
    pod: Pod,
    nodes: Sequence[str],
    budgets: Sequence[PodDisruptionBudget],
    wanted: int,
) -> tuple[list[Candidate], dict[str, Status]]:
    """What `dry_run_preemption` answers for nodes in the order in which they are to be tried."""
    table, kernels = handle.cache.state.table, framework.kernels
    assert kernels is not None
    fine: list[Candidate] = []
    violating: list[Candidate] = []
    rejected: dict[str, Status] = {}
    with handle.cache.lock:
        before = handle.nominator.nominated_before(pod).items()
        places = [(table.find_row(name), pods) for name, pods in before]
        present = [(row, pods) for row, pods in places if row is not None and table.is_present(row)]
        kernels.search.nominate(present)
        rows = [_row(handle, name) for name in nodes]
        pod_class, node_name, pinned = state.target
        out = kernels.dry_runs.dry_run(pod_class, rows, budgets, node_name, pinned, wanted)
        verdicts, violations = out.verdicts.tolist(), out.violations.tolist()
        said = {verdict: status_of(framework, state, verdict) for verdict in set(verdicts) if verdict}
        for at, (name, verdict) in enumerate(zip(nodes, verdicts, strict=False)):
            victims = Victims(tuple(out.victims(at)), violations[at])
            if verdict:
                rejected[name] = said[verdict]
            elif not victims.pods:
                rejected[name] = Status(Code.ERROR, err=MoorageError(NO_VICTIM.format(name)))
            else:
                (violating if violations[at] else fine).append(Candidate(name, victims))
    return fine + violating, rejected


def _row(handle: FrameworkHandle, name: str) -> int:
    row = handle.cache.state.table.find_row(name)
    if row is None:
        raise MoorageError(f"node {name} is not in the cache")
    return row


def status_of(framework: Framework, state: CycleState, verdict: int) -> Status:
    """Why evicting pods does not help on a node, from the verdict of a dry run."""
    if verdict == NOBODY:
        return NO_VICTIMS
    plugin = framework.profile.planned(FilterPlugin)[place_of(verdict)]
    assert isinstance(plugin, NativePlugin)
    return rejection(plugin, state, verdict)
