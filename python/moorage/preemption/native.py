"""Dry runs in the core, for pods that only kernels of the core decide about."""

from __future__ import annotations

from collections.abc import Sequence

from moorage._core.dry_runs import NO_VICTIMS as NOBODY
from moorage._core.dry_runs import DryRuns
from moorage.errors import MoorageError
from moorage.framework.cycle_state import CycleState
from moorage.framework.extender import Victims
from moorage.framework.handle import FrameworkHandle
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import FILTER
from moorage.framework.kernels import place_of, rejection
from moorage.framework.status import Status
from moorage.objects.pod import Pod
from moorage.objects.policy import PodDisruptionBudget

from .eligibility import NO_VICTIMS
from .pick import Candidate


def dry_runs_of(handle: FrameworkHandle) -> DryRuns | None:
    """The core's dry runs; None where a plugin outside filters, or would be told of each victim."""
    framework = handle.framework
    if framework is None or framework.kernels is None or not framework.kernels.dry_runs.suits:
        return None
    return framework.kernels.dry_runs if all(p.in_core for p in framework.profile.pre_filters) else None


def dry_run_in_core(
    runs: DryRuns,
    handle: FrameworkHandle,
    state: CycleState,
    pod: Pod,
    nodes: Sequence[str],
    budgets: Sequence[PodDisruptionBudget],
    wanted: int,
) -> tuple[list[Candidate], dict[str, Status]]:
    """What `dry_run_preemption` answers for nodes in the order in which they are to be tried."""
    with handle.cache.lock:
        rows = [_row(handle, name) for name in nodes]
        before = handle.nominator.nominated_before(pod)
        table = handle.cache.state.table
        places = [(table.find_row(name), pods) for name, pods in before.items()]
        runs.search.nominate(
            [(row, pods) for row, pods in places if row is not None and table.is_present(row)]
        )
        pod_class, node_name, pinned = state.target
        out = runs.dry_run(pod_class, rows, budgets, node_name, pinned, wanted)
        fine: list[Candidate] = []
        violating: list[Candidate] = []
        rejected: dict[str, Status] = {}
        verdicts, violations = out.verdicts.tolist(), out.violations.tolist()
        for at, (name, verdict) in enumerate(zip(nodes, verdicts, strict=False)):
            if verdict:
                rejected[name] = _status(handle, state, verdict)
                continue
            victims = Victims(tuple(out.victims(at)), violations[at])
            (violating if violations[at] else fine).append(Candidate(name, victims))
    return fine + violating, rejected


def _row(handle: FrameworkHandle, name: str) -> int:
    row = handle.cache.state.table.find_row(name)
    if row is None:
        raise MoorageError(f"node {name} is not in the cache")
    return row


def _status(handle: FrameworkHandle, state: CycleState, verdict: int) -> Status:
    if verdict == NOBODY or handle.framework is None:
        return NO_VICTIMS
    plugin = handle.framework.profile.planned(FILTER)[place_of(verdict)]
    assert isinstance(plugin, NativePlugin)
    return rejection(plugin, state, verdict)
