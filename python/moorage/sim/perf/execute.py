"""Executes the operations of a workload."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from msgspec.structs import replace

from moorage.errors import InputError, located
from moorage.framework.configuration.reading.durations import SECOND, parse_duration
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.read.object_defaults import default_object

from .loop import Run, WorkloadFailedError
from .measure import Window
from .ops import (
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePodGroups,
    CreatePods,
    CreatePodSets,
    DeletePods,
    Op,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
)
from .pods import FAILED, GATED, GONE, NEW, PodRun, run_of, runs_of
from .templates.object_templates import CLASSES, ObjectTemplate
from .volumes import bound_volumes, with_claims

CHURN_INTERVAL = 500
"""Milliseconds (scheduler_perf, operations.go)."""


def execute(run: Run) -> None:
    """Execute the operations of a workload in order.

    Parameters
    ----------
    run : Run

    Raises
    ------
    InputError
        Names file and operation.
    WorkloadFailedError
        An operation cannot finish.
    """
    for number, op in enumerate(run.workload.ops):
        with located(source=run.workload.source, obj=f"{run.workload.full_name}: workloadTemplate[{number}]"):
            EXECUTE[type(op)](run, op, number)


def _template(run: Run, path: str, params: Mapping[str, Any], count: int) -> ObjectTemplate:
    return ObjectTemplate(run.templates.get(run.workload.path(path)), params, count)


def _seconds(duration: str) -> Fraction:
    return Fraction(parse_duration(duration), SECOND)


def create_nodes(run: Run, op: CreateNodes, number: int) -> None:
    path = op.node_template_path
    run.cluster.create_nodes(op, _template(run, path, op.template_params, op.count) if path else None)


def create_namespaces(run: Run, op: CreateNamespaces, number: int) -> None:
    path = op.namespace_template_path
    template = _template(run, path, {}, op.count) if path else None
    for index in range(op.count):
        run.cluster.namespace(f"{op.prefix}-{index}", template, index)


def create_pods(run: Run, op: CreatePods, number: int) -> None:
    namespace = op.namespace or f"namespace-{number}"
    run.cluster.namespace(namespace)
    path = op.pod_template_path or run.workload.pod_template
    text = run.templates.get(run.workload.path(path)) if path else run.templates.base_pod
    template = ObjectTemplate(text, op.template_params, op.count)
    # Decoded before anything is measured: what that leaves behind is collected.
    made = list(runs_of(template, op.count, namespace, run.names, op.signature_batch_size))
    volumes: list[Object] = []
    if path := op.persistent_volume_claim_template_path:
        claim, volume = (
            _template(run, one, {}, op.count) for one in (path, op.persistent_volume_template_path)
        )
        volumes, made = list(bound_volumes(claim, volume, op.count, namespace)), list(with_claims(made))
    if op.collect_metrics:
        _open(run, Window(frozenset({namespace}), {}))
    run.cluster.create_many(volumes)
    if op.steady_state:
        _keep_steady_state(run, op, made, namespace)
    else:
        run.add(*made)
        if not op.skip_wait_to_completion:
            run.until(lambda: all(map(_is_over, reversed(made))))
    if op.collect_metrics:
        run.meter.close()


def _is_over(run: PodRun) -> bool:
    """Whether every pod of a run is placed or deleted."""
    return run.count(NEW, FAILED, GATED) == 0


def _keep_steady_state(run: Run, op: CreatePods, pods: list[PodRun], namespace: str) -> None:
    """Keep a constant number of pods: delete each placed pod and create another one."""
    seen = 0

    def placed(one: PodRun, number: int) -> None:
        nonlocal seen
        if one.template.metadata.namespace != namespace:
            return
        seen += 1
        run.cluster.delete_pod(one, number)
        first = run.names.reserve(namespace, one.template.metadata.generate_name, 1)
        run.add(PodRun(one.template, first, 1))

    end = run.time.now + _seconds(op.duration or "0")
    run.placed = placed
    for one in pods:
        for index in range(len(one)):  # one at a time: each makes room for the next
            run.add(PodRun(one.template, one.first + index, 1))
    run.sleep(end - run.time.now)
    run.placed = lambda one, number: None
    if not seen:
        raise WorkloadFailedError("no pod was placed while in steady state")


def create_pod_sets(run: Run, op: CreatePodSets, number: int) -> None:
    for index in range(op.count):
        inner = replace(op.create_pods_op, namespace=f"{op.namespace_prefix}-{index}")
        create_pods(run, inner, number)


def delete_pods(run: Run, op: DeletePods, number: int) -> None:
    chosen = [
        (one.name(index), one, index)
        for one in run.find(lambda name: name == op.namespace, op.label_selector)
        for index in range(len(one))
        if one.state[index] != GONE
    ]
    in_order = sorted(chosen, key=lambda item: item[0])  # as an API server lists them
    actions = [partial(run.cluster.delete_pod, one, index) for _, one, index in in_order]
    _perform(run, actions, op.delete_pods_per_second, not op.skip_wait_to_completion)


def _perform(run: Run, actions: Iterable[Callable[[], object]], per_second: int, waits: bool = True) -> None:
    """Perform actions at a rate, and wait for the last one; at once if the rate is 0."""
    left = deque(actions)

    def step() -> bool:
        left.popleft()()
        return bool(left)

    if not per_second:
        while left:
            step()
    elif left:
        seconds = Fraction(len(left), per_second)
        run.time.every(Fraction(1, per_second), step)
        if waits:
            run.until(lambda: not left, seconds + 1)


def churn(run: Run, op: Churn, number: int) -> None:
    namespace = op.namespace or f"namespace-{number}"
    run.cluster.namespace(namespace)
    templates = [_template(run, path, {}, 1) for path in op.template_paths]
    slots: list[list[Object | PodRun | None]] = [[None] * op.number for _ in templates]
    ticks = 0

    def tick() -> bool:
        nonlocal ticks
        for template, kept in zip(templates, slots, strict=True):
            if op.mode == "create":
                _create(run, template, 0, namespace)
            else:
                place = ticks % op.number
                kept[place] = _recreate(run, template, namespace, kept[place])
        ticks += 1
        run.ticks += 1
        return op.mode == "recreate" or not op.number or ticks < op.number

    run.time.every(Fraction(op.interval_milliseconds or CHURN_INTERVAL, 1000), tick)


def _recreate(
    run: Run, template: ObjectTemplate, namespace: str, there: Object | PodRun | None
) -> Object | PodRun | None:
    """Delete the object, or create it if there is none."""
    if there is None:
        return _create(run, template, 0, namespace)
    if isinstance(there, PodRun):
        run.cluster.delete_pod(there, 0)
    else:
        run.cluster.delete(there)
    return None


def _create(run: Run, template: ObjectTemplate, index: int, namespace: str) -> Object | PodRun:
    """Create an object of any kind that scheduling reads."""
    obj = template.make(index, namespace=namespace)
    if not isinstance(obj, Pod):
        return run.cluster.create(obj)
    pod = run_of(template.pod(index, namespace), 1, run.names)
    run.add(pod)
    return pod


def create_any(run: Run, op: CreateAny, number: int) -> None:
    if op.namespace:
        run.cluster.namespace(op.namespace)
    template = _template(run, op.template_path, op.template_params, op.count)
    for index in range(op.count):
        _create(run, template, index, op.namespace)


def create_pod_groups(run: Run, op: CreatePodGroups, number: int) -> None:
    run.cluster.namespace(op.namespace)
    template = _template(run, op.template_path, op.template_params, op.count)
    run.cluster.create_many(
        default_object(template.make(index, "PodGroup", op.namespace), CLASSES, run.cluster.names)
        for index in range(op.count)
    )


def update_any(run: Run, op: UpdateAny, number: int) -> None:
    template = _template(run, op.template_path, op.template_params, op.count)
    actions = [partial(_update, run, template, index, op.namespace) for index in range(op.count)]
    _perform(run, actions, op.update_per_second)


def _update(run: Run, template: ObjectTemplate, index: int, namespace: str) -> None:
    obj = template.make(index, namespace=namespace)
    if isinstance(obj, Pod):
        run.update_pod(template.pod(index, namespace))
    else:
        run.cluster.update(obj)


def barrier(run: Run, op: Barrier, number: int) -> None:
    states = (NEW,) if op.stage_requirement == "Attempted" else (NEW, FAILED, GATED)

    def over() -> bool:
        chosen = run.find(lambda name: not op.namespaces or name in op.namespaces, op.label_selector)
        return all(one.count(*states) == 0 for one in chosen)

    run.until(over)


def sleep(run: Run, op: Sleep, number: int) -> None:
    run.sleep(_seconds(op.duration))


def start_collecting(run: Run, op: StartCollectingMetrics, number: int) -> None:
    _open(run, Window(frozenset(op.namespaces), op.label_selector))


def stop_collecting(run: Run, op: StopCollectingMetrics, number: int) -> None:
    if run.meter.window is None:
        raise InputError("no startCollectingMetrics before", path="opcode")
    run.meter.close()


def _open(run: Run, window: Window) -> None:
    if run.meter.window is not None:
        raise InputError("metrics are being collected already", path="collectMetrics")
    run.meter.open(window)


EXECUTE: dict[type[Op], Callable[[Run, Any, int], None]] = {
    CreateNodes: create_nodes,
    CreateNamespaces: create_namespaces,
    CreatePods: create_pods,
    CreatePodSets: create_pod_sets,
    DeletePods: delete_pods,
    Churn: churn,
    Barrier: barrier,
    Sleep: sleep,
    CreateAny: create_any,
    CreatePodGroups: create_pod_groups,
    UpdateAny: update_any,
    StartCollectingMetrics: start_collecting,
    StopCollectingMetrics: stop_collecting,
}
