"""What a run over a cluster shows of it: pods that wait, or that nobody schedules; pods on nodes that do not
run them, or against their own spread; rollouts that a quota stops."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from moorage.errors import first_of, number_of, shorten
from moorage.grouped import grouped
from moorage.kube import Deployment, Node, Pod, ResourceClaim, ResourceQuota
from moorage.kube.model.cluster import now_of, seconds
from moorage.kube.workloads.ownership import Workload, is_active

from ..runs.simulation import (
    NOT_STARTED,
    OTHER_SCHEDULER,
    PLACED,
    REFUSED,
    UNSCHEDULABLE,
    WAITING,
    PodOutcome,
    Simulation,
    group_outcomes,
)
from .finding import LintFinding, identity, of_workload

_EXAMPLES = 3
_WAITS = frozenset({UNSCHEDULABLE, WAITING, OTHER_SCHEDULER, REFUSED, NOT_STARTED})
_PATIENCE = 300
"""Seconds for which a pod may wait before a scheduler looks at it."""
_OS = "kubernetes.io/os"


def waiting_pods(done: Simulation) -> Iterator[LintFinding]:
    """Yield the pods that find no node, by workload and reason."""
    outcomes = chain.from_iterable(done.lacking.values())
    for group in group_outcomes((each for each in outcomes if each.status in _WAITS), short=True):
        text = f"{number_of(len(group.outcomes), 'pod waits', 'pods wait')}: {group.reason}"
        yield of_workload("pod-waits", group.workload, text, len(group.outcomes))


def not_scheduled(done: Simulation) -> Iterator[LintFinding]:
    """Yield the pods of the input that have room, and that no scheduler has placed for minutes."""
    cluster = done.cluster
    came = done.scale_up is not None and done.scale_up.up.nodes
    if done.setup.changes or cluster.change is not None or came:
        return
    if not any(pod.spec.node_name for pod in cluster.pods):  # no cluster that runs
        return
    now = now_of(chain(cluster.nodes, cluster.pods, cluster.others))
    late = [
        outcome
        for outcome in done.outcomes
        if outcome.status == PLACED and not outcome.victims
        if (created := outcome.pod.metadata.creation_timestamp) and 0 < seconds(created) < now - _PATIENCE
    ]
    for workload, outcomes in grouped((each.workload, each) for each in late).items():
        pod = outcomes[0].pod
        waits = number_of(len(outcomes), "pod has waited", "pods have waited")
        text = f"{waits} since {pod.metadata.creation_timestamp}, and there is room, as on {outcomes[0].node}"
        said = [
            each.message for each in pod.status.conditions if each.type == "PodScheduled" and each.message
        ]
        why = f"; the cluster says: {shorten(said[0])}" if said else "; no scheduler has looked at it"
        yield of_workload("not-scheduled", workload, text + why, len(outcomes))


def on_wrong_system(done: Simulation, outcomes: Collection[PodOutcome]) -> Iterator[LintFinding]:
    """Yield the pods on nodes of an operating system that is not theirs."""
    systems = {node.name: node.metadata.labels.get(_OS, "") for node in done.scheduler.client.list(Node)[0]}
    if {*systems.values()} <= {"", "linux"}:
        outcomes = [each for each in outcomes if each.pod.spec.os is not None]
    wrong = dict[tuple[Workload, str], int]()
    for outcome in outcomes:
        spec, system = outcome.pod.spec, systems.get(outcome.node, "")
        wanted = "" if spec.os is None else spec.os.name
        text = ""
        if system and wanted and wanted != system:
            text = (
                f"spec.os.name is {wanted}, and {outcome.node} is a {system} node, whose kubelet refuses it"
            )
        elif system == "windows" and not wanted and _OS not in str((spec.node_selector, spec.affinity)):
            text = (
                f"it is on the Windows node {outcome.node} and names no system: a Linux image does not start"
            )
        if text:
            key = outcome.workload, text
            wrong[key] = wrong.get(key, 0) + 1
    for (workload, text), number in wrong.items():
        yield of_workload("wrong-os", workload, text, number)


def broken_spreads(done: Simulation, workloads: Collection[Workload] | None = None) -> Iterator[LintFinding]:
    """Yield the workloads whose pods are against their own hard spread constraints.

    Parameters
    ----------
    workloads : collection of Workload, optional
        Those to look at; all by default.
    """
    scheduler, latest = done.scheduler, dict[Workload, Pod]()
    listed: list[Pod] = scheduler.client.list(Pod)[0]
    for pod in listed:
        if pod.spec.topology_spread_constraints and pod.spec.node_name and is_active(pod):
            latest[done.workloads.of(pod)] = pod
    if not latest:
        return
    from moorage.cluster.requirements import hard_spreads

    from ..asked_pods import begin_search

    for workload, pod in latest.items():
        engine = scheduler.engines.get(pod.spec.scheduler_name)
        if engine is None or not (hard := hard_spreads(pod.spec)) or workload not in (workloads or latest):
            continue
        state, ran = begin_search(engine, pod)
        counts = [] if ran.rejection is not None else state.terms.hard_counts()
        for constraint, (domains, _, most, minimum) in zip(hard, counts, strict=False):
            pods = {name: number for name, (number, _) in domains.by_domain().items()}
            fewest = min(pods.values(), default=0) if len(pods) >= minimum else 0
            if pods and max(pods.values()) - fewest > most:
                domains_text = first_of(
                    [f"{name} {pods[name]}" for name in sorted(pods, key=lambda each: -pods[each])], 6
                )
                by_domain = f"{constraint.topology_key} {domains_text}"
                text = f"its pods are against their own spread, maxSkew {most}: {by_domain}"
                if workload.kind == Deployment.__name__ and not constraint.match_label_keys:
                    text += "; matchLabelKeys: [pod-template-hash] counts those of a rollout alone"
                yield of_workload("spread-broken", workload, text, sum(pods.values()))


def tainted_devices(done: Simulation) -> Iterator[LintFinding]:
    """Yield the pods that have devices with a taint by which the cluster evicts them."""
    scheduler = done.scheduler
    claims: list[ResourceClaim] = [
        claim for claim in scheduler.client.list(ResourceClaim)[0] if claim.status.allocation is not None
    ]
    if not claims:
        return
    from moorage.engine.devices.device_properties import tolerates_taints
    from moorage.engine.devices.device_state import DeviceState

    taints = {
        (published.spec.driver, published.spec.pool.name, device.name): [
            taint for taint in device.taints if taint.effect == "NoExecute"
        ]
        for published in scheduler.handle.shared(DeviceState.of).published()
        for device in published.spec.devices
    }
    for claim in claims:
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            its = taints.get((result.driver, result.pool, result.device), [])
            if not its or tolerates_taints(result.tolerations, its):
                continue
            device, users = f"{result.driver} {result.pool}/{result.device}", claim.status.reserved_for
            named = ", ".join(f"{taint.key}={taint.value}".rstrip("=") for taint in its)
            text = f"its device {device} has the taint {named}:NoExecute, by which its pods are evicted"
            about = f": {first_of([user.name for user in users], _EXAMPLES)}" if users else ""
            yield LintFinding("device-tainted", identity(claim), f"{text}{about}", pods=len(users))


def stopped_rollouts(done: Simulation) -> Iterator[LintFinding]:
    """Yield the Deployments whose next rollout a quota stops, each tried by a restart."""
    scheduler = done.scheduler
    spaces = {quota.namespace for quota in scheduler.client.list(ResourceQuota)[0]}
    deployments: list[Deployment] = [
        each
        for each in scheduler.client.list(Deployment)[0]
        if each.namespace in spaces and each.spec.replicas
    ]
    unfinished = {each.workload for each in scheduler.ask.rollouts()} if deployments else set()
    for deployment in deployments:
        name, workload = f"{deployment.kind} {deployment.key}", identity(deployment)
        if name in unfinished or deployment.spec.paused:
            continue
        with scheduler.transaction():
            scheduler.change.restart(f"{deployment.kind}/{deployment.key}")
            scheduler.run()
            stops = any(each.workload == name for each in scheduler.ask.rollouts())
            refused = scheduler.ask.refused_pods() if stops else []
        why = next((each.message for each in refused if done.workloads.of(each.pod) == workload), "")
        if "exceeded quota" in why:
            text = f"its next rollout stops: {shorten(why.partition(' is forbidden: ')[2])}"
            yield of_workload("quota-stops-rollout", workload, text)


def told_by_run(done: Simulation) -> Iterator[LintFinding]:
    """Yield what the answer of a run tells of the pods that it has placed."""
    placed = [outcome for outcome in done.outcomes if outcome.status == PLACED]
    yield from not_scheduled(done)
    yield from on_wrong_system(done, placed)
    yield from tainted_devices(done)
    if placed:
        yield from broken_spreads(done, {outcome.workload for outcome in placed})
