"""Operations of a workload, as in the benchmark files (kubernetes v1.36, operations.go)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from moorage.errors import InputError, located
from moorage.kube import Object, Pod
from moorage.kube.go_texts import SECOND, parse_duration
from moorage.kube.model.meta import Condition
from moorage.kube.read.object_defaults import default_object

from .object_templates import CLASSES, ObjectTemplate
from .operation_cursor import Operations, Wait, WorkloadFailedError, WorkloadStuckError
from .pods import FAILED, GATED, GONE, NEW, PodRun, Window, bound_volumes, run_of, runs_of, with_claims
from .workload_cluster import LabelNodes, NodeAllocatable, UniqueNodeLabel

MOST = 10_000_000
"""Maximum number of objects of an operation; larger numbers are an error in the file."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
CHURN_INTERVAL = 500
"""Milliseconds (scheduler_perf, operations.go)."""
STABLE = 5
"""Seconds for which pods have to stay without a node (scheduler_perf, dra.go)."""
BINDING_CONDITIONS = "DRADeviceBindingConditions"
"""The driver publishes conditions for workloads that switch this gate on themselves: when the files were
written it was off by default, and an API server drops the fields then."""


NOT_ATTEMPTED = NEW, GONE
WITHOUT_NODE = NEW, GONE, FAILED, GATED
"""States of pods that do not count for what waits."""
NOTHING: tuple[Wait, ...] = ()
"""What an operation waits for that does not wait."""


class Op(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An operation of a workload.

    A field ``xParam`` contains, after a dollar sign, the name of the workload's parameter that is the value
    of x.
    """

    opcode: str

    def check(self) -> None:
        """Check the operation after its parameters have been filled in.

        Raises
        ------
        InputError
            The operation is invalid; names the field.
        """

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        """Execute the operation.

        Parameters
        ----------
        run : Operations
            Those of the running workload.
        number : int
            Index of the operation in the workload.

        Returns
        -------
        iterable of Wait
            What the operation waits for; it goes on when that is over.

        Raises
        ------
        InputError
            An object is invalid.
        WorkloadFailedError
            The operation cannot finish.
        """
        raise NotImplementedError(self.opcode)

    def templates(self) -> list[str]:
        """Return the paths of the operation's template files."""
        paths: list[str] = []
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if field.endswith("template_path") and value:
                paths.append(value)
            elif field == "template_paths":
                paths += value
            elif isinstance(value, Op):
                paths += value.templates()
        return paths


class CountedOp(Op, frozen=True, kw_only=True):
    """An operation on a number of objects."""

    count: Count = 0
    count_param: str = ""


class TemplateOp(CountedOp, frozen=True, kw_only=True):
    """An operation whose templates have parameters."""

    template_params: dict[str, Any] = {}

    def template(self, run: Operations, path: str) -> ObjectTemplate:
        """Return a template file with the parameters of the operation.

        Parameters
        ----------
        run : Operations
            Those of the running workload.
        path : str
            Path relative to the file of the workload.
        """
        return run.template(path, self.template_params, self.count)


class CreateNodes(TemplateOp, frozen=True):
    """Creates nodes, and modifies them by at most one strategy."""

    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None

    def check(self) -> None:
        if len(self._strategies()) > 1:
            raise InputError("at most one strategy", path="nodeAllocatableStrategy")

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        path = self.node_template_path
        template = self.template(run, path) if path else None
        run.cluster.create_nodes(self.count, template, *self._strategies())
        return NOTHING

    def _strategies(self) -> list[NodeAllocatable | LabelNodes | UniqueNodeLabel]:
        strategies = (
            self.node_allocatable_strategy,
            self.label_node_prepare_strategy,
            self.unique_node_label_strategy,
        )
        return [strategy for strategy in strategies if strategy is not None]


class CreateNamespaces(CountedOp, frozen=True):
    """Creates namespaces, ``prefix-0`` and so on."""

    prefix: str
    namespace_template_path: str = ""

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        path = self.namespace_template_path
        template = run.template(path, {}, self.count) if path else None
        for index in range(self.count):
            run.namespace(f"{self.prefix}-{index}", template, index)
        return NOTHING


class CreatePods(TemplateOp, frozen=True):
    """Creates pods, and waits until all are scheduled unless `skip_wait_to_completion` is set."""

    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    signature_batch_size: Count = 0
    signature_batch_size_param: str = ""

    def check(self) -> None:
        if self.collect_metrics and self.skip_wait_to_completion:
            raise InputError("cannot be combined with skipWaitToCompletion", path="collectMetrics")
        if self.steady_state and self.skip_wait_to_completion:
            raise InputError("cannot be combined with skipWaitToCompletion", path="steadyState")
        if self.persistent_volume_claim_template_path and not self.persistent_volume_template_path:
            raise InputError(
                "required beside persistentVolumeClaimTemplatePath", path="persistentVolumeTemplatePath"
            )
        if self.persistent_volume_claim_template_path and self.steady_state:
            raise InputError("cannot be combined with steadyState", path="persistentVolumeClaimTemplatePath")
        with located(ValueError, path="duration"):
            parse_duration(self.duration or "0")

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        namespace = self.namespace or f"namespace-{number}"
        run.namespace(namespace)
        template = self.template(run, self.pod_template_path or run.workload.pod_template)
        # Decoded before the measurement, so that the garbage of decoding is collected.
        runs = list(runs_of(template, self.count, namespace, run.names, self.signature_batch_size))
        volumes: list[Object] = []
        if path := self.persistent_volume_claim_template_path:
            claim = run.template(path, {}, self.count)
            volume = run.template(self.persistent_volume_template_path, {}, self.count)
            volumes, runs = list(bound_volumes(claim, volume, self.count, namespace)), list(with_claims(runs))
        if self.collect_metrics:
            run.measure(Window(frozenset({namespace}), {}))
        run.cluster.create_many(volumes)
        if self.steady_state:
            yield from self._keep_steady_state(run, runs, namespace)
        else:
            run.add(*runs)
            if self.skip_wait_to_completion:
                run.wanted[namespace] += self.count
            else:
                yield Wait(lambda: not any(pod_run.has(NEW, FAILED, GATED) for pod_run in reversed(runs)))
        if self.collect_metrics:
            run.measure(None)

    def _keep_steady_state(self, run: Operations, pods: list[PodRun], namespace: str) -> Iterator[Wait]:
        """As soon as so many pods as wanted have been placed, delete all of the namespace, and start over."""
        placed_pods = kept = 0

        def placed(pod_run: PodRun) -> None:
            nonlocal placed_pods, kept
            if pod_run.template.metadata.namespace != namespace:
                return
            placed_pods += 1
            if placed_pods % (self.count or 1):
                return
            for old in run.find(namespace, {}, kept):
                for index in np.flatnonzero(old.state != GONE).tolist():
                    run.cluster.delete_pod(old, index)
            kept = len(run.runs)
            run.add(*(one.again(run.names) for one in pods))

        duration = _seconds(self.duration or "0")
        if not duration:  # the pods are left as they are, for the operations that follow
            run.add(*pods)
            return
        end = run.clock.exact + duration
        run.on_placed = placed
        run.add(*pods)
        yield run.sleep(end - run.clock.exact)
        run.on_placed = None
        if not placed_pods:
            raise WorkloadStuckError(f"no pod was placed while in steady state{run.waiting()}")


class CreatePodSets(CountedOp, frozen=True):
    """Creates the pods of an operation in each of several namespaces."""

    namespace_prefix: str
    create_pods_op: CreatePods

    def check(self) -> None:
        if self.count * self.create_pods_op.count > MOST:
            raise InputError(f"more than {MOST} pods in all", path="count")
        with located(path="createPodsOp"):
            self.create_pods_op.check()

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        for index in range(self.count):
            inner = replace(self.create_pods_op, namespace=f"{self.namespace_prefix}-{index}")
            yield from inner.execute(run, number)


class DeletePods(Op, frozen=True):
    """Deletes pods by namespace and labels, at a rate."""

    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: Count = 0
    skip_wait_to_completion: bool = False

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        chosen = [
            (pod_run.name(index), pod_run, index)
            for pod_run in run.find(self.namespace, self.label_selector)
            for index in range(len(pod_run))
            if pod_run.state[index] != GONE
        ]
        in_order = sorted(chosen, key=lambda item: item[0])  # the order in which an API server lists them
        actions = [partial(run.cluster.delete_pod, pod_run, index) for _, pod_run, index in in_order]
        return _perform(run, actions, self.delete_pods_per_second, not self.skip_wait_to_completion)


class Churn(Op, frozen=True):
    """Creates objects at intervals in the background; mode ``recreate`` deletes them in turn.

    An object whose name is taken is left out.
    """

    mode: Literal["create", "recreate"]
    template_paths: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    number: Count = 0
    interval_milliseconds: Count = 0
    namespace: str = ""

    def check(self) -> None:
        if self.mode == "recreate" and not self.number:
            raise InputError("must be at least 1 in mode recreate", path="number")

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        namespace = self.namespace or f"namespace-{number}"
        run.cluster.namespace(namespace)
        templates = [run.template(path, {}, 1) for path in self.template_paths]
        created: list[list[Object | PodRun | None]] = [[None] * self.number for _ in templates]
        ticks = 0

        def tick() -> bool:
            nonlocal ticks
            for template, objects in zip(templates, created, strict=True):
                if self.mode == "create":
                    _create_new(run, template, namespace)
                else:
                    place = ticks % self.number
                    objects[place] = _recreate(run, template, namespace, objects[place])
            ticks += 1
            run.ticks += 1
            return self.mode == "recreate" or not self.number or ticks < self.number

        run.clock.every(Fraction(self.interval_milliseconds or CHURN_INTERVAL, 1000), tick)
        return NOTHING


class Barrier(Op, frozen=True):
    """Waits until as many pods of each namespace have nodes, or were attempted, as others did not wait for.

    Pods of a namespace count if they have the labels, whoever made them. A namespace is known if an operation
    other than churn names it, until a barrier has waited for its pods to have nodes.
    """

    namespaces: tuple[str, ...] = ()
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        for namespace in self.namespaces:
            if namespace not in run.wanted:
                raise WorkloadFailedError(f"unknown namespace {namespace}")
        attempted = self.stage_requirement == "Attempted"
        namespaces = self.namespaces or tuple(run.wanted)
        for namespace in namespaces:
            count, without = run.wanted[namespace], NOT_ATTEMPTED if attempted else WITHOUT_NODE
            yield run.until(count, namespace, self.label_selector, without)
        for namespace in () if attempted else namespaces:
            run.wanted.pop(namespace, None)


class Sleep(Op, frozen=True):
    """Lets virtual time pass while scheduling continues."""

    duration: str = ""
    duration_param: str = ""

    def check(self) -> None:
        if not self.duration:
            raise InputError("required", path="duration")
        with located(ValueError, path="duration"):
            parse_duration(self.duration)

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        return (run.sleep(_seconds(self.duration)),)


class CreateAny(TemplateOp, frozen=True, kw_only=True):
    """Creates objects of any kind."""

    template_path: str
    namespace: str = ""
    count: Count = 1

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        if self.namespace:
            run.namespace(self.namespace)
        template = self.template(run, self.template_path)
        for index in range(self.count):
            _create(run, template.complete(index, self.namespace))
        return NOTHING


class CreatePodGroups(TemplateOp, frozen=True):
    """Creates pod groups; called ``waitForPodGroups`` in earlier files."""

    template_path: str
    namespace: str
    kind: ClassVar[str] = "PodGroup"

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        run.namespace(self.namespace)
        template = self.template(run, self.template_path)
        run.cluster.create_many(
            default_object(template.make(index, self.kind, self.namespace), CLASSES, run.cluster.names)
            for index in range(self.count)
        )
        return NOTHING


class CreateCompositePodGroups(CreatePodGroups, frozen=True):
    """Creates composite pod groups."""

    kind: ClassVar[str] = "CompositePodGroup"


class UpdateAny(TemplateOp, frozen=True, kw_only=True):
    """Updates objects of any kind, at a rate."""

    template_path: str
    namespace: str = ""
    count: Count = 1
    update_per_second: Count = 0
    subresources: tuple[str, ...] = ()

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        template = self.template(run, self.template_path)
        # They are made before the first update: reading templates between two attempts would leave the
        # processor's caches without the scheduler.
        objects = [template.complete(index, self.namespace) for index in range(self.count)]
        actions = [partial(_update, run, obj) for obj in objects]
        return _perform(run, actions, self.update_per_second)


class StartCollectingMetrics(Op, frozen=True):
    """Begins the measurement of pods by namespace and labels."""

    namespaces: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    name: str = ""
    label_selector: dict[str, str] = {}

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        run.measure(Window(frozenset(self.namespaces), self.label_selector))
        return NOTHING


class StopCollectingMetrics(Op, frozen=True):
    """Ends the measurement."""

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        if run.window is None:
            raise InputError("no startCollectingMetrics before", path="opcode")
        run.measure(None)
        return NOTHING


class CreateResourceDriver(Op, frozen=True, kw_only=True):
    """Publishes devices of a driver for the nodes whose names match a pattern."""

    driver_name: str
    nodes: str
    max_claims_per_node: Count = 0
    max_claims_per_node_param: str = ""

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        devices = run.cluster.devices
        conditions = run.workload.feature_gates.get(BINDING_CONDITIONS, False)
        devices.publish(self.driver_name, self.nodes, self.max_claims_per_node, conditions)
        return NOTHING


class AllocResourceClaims(Op, frozen=True, kw_only=True):
    """Allocates devices for the claims of a namespace, or of all, without pods."""

    namespace: str = ""

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        if (failed := run.cluster.devices.allocate(self.namespace)) is not None:
            text = f"no node has the devices of ResourceClaim {failed}"
            raise WorkloadStuckError(text + run.cluster.devices.unreachable())
        return NOTHING


class UpdateDeviceConditions(Op, frozen=True, kw_only=True):
    """Reports a condition of the devices of all claims of a namespace, as soon as each is allocated."""

    namespace: str
    condition_type: str = ""
    condition_type_param: str = ""
    condition_status: Literal["", "True", "False", "Unknown"] = ""
    condition_status_param: str = ""
    duration: str = ""
    duration_param: str = ""

    def check(self) -> None:
        if not (self.condition_type and self.condition_status):
            raise InputError("required", path="conditionTypeParam, conditionStatusParam")
        with located(ValueError, path="duration"):
            parse_duration(self.duration or "0")

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        devices, within = run.cluster.devices, _seconds(self.duration or "0")
        condition = Condition(self.condition_type, self.condition_status, "Test", "Test")
        deadline = run.clock.exact + within
        if not (yield from _poll(run, deadline, lambda: bool(devices.claims(self.namespace)))):
            raise WorkloadFailedError(f"no claims in namespace {self.namespace} after {float(within):g} s")
        for claim in devices.claims(self.namespace):
            awaits = partial(devices.awaits_conditions, self.namespace, claim)
            if not (yield from _poll(run, deadline, awaits)):
                key = f"{self.namespace}/{claim}"
                raise WorkloadFailedError(f"no devices in claim {key} after {float(within):g} s")
            devices.report(self.namespace, claim, condition)


class CheckPodScheduled(Op, frozen=True, kw_only=True):
    """Checks that all pods of a namespace get a node, or that all stay without one for 5 s."""

    namespace: str
    expected_scheduled: bool = False
    scheduled: bool | None = None
    scheduled_param: str = ""
    duration: str = ""
    duration_param: str = ""

    def check(self) -> None:
        with located(ValueError, path="duration"):
            parse_duration(self.duration or "0")

    def execute(self, run: Operations, number: int) -> Iterable[Wait]:
        expected = self.expected_scheduled if self.scheduled is None else self.scheduled
        stable, wrong = None, ""

        def is_over() -> bool:
            nonlocal stable, wrong
            wrong = next(
                (pod for pod, node in run.cluster.pods(self.namespace) if bool(node) != expected), ""
            )
            stable = None if wrong else run.clock.exact if stable is None else stable
            return stable is not None and (expected or run.clock.exact - stable >= STABLE)

        within = _seconds(self.duration or "0")
        if not (yield from _poll(run, run.clock.exact + within, is_over)) and wrong:
            state = "has no" if expected else "has a"
            raise WorkloadFailedError(f"pod {wrong} {state} node after {float(within):g} s")


class UnbuiltOp(Op, frozen=True):
    """An operation that is not supported; its other fields are not read."""


OPS: dict[str, type[Op]] = {
    "createNodes": CreateNodes,
    "createNamespaces": CreateNamespaces,
    "createPods": CreatePods,
    "createPodSets": CreatePodSets,
    "deletePods": DeletePods,
    "churn": Churn,
    "barrier": Barrier,
    "sleep": Sleep,
    "createAny": CreateAny,
    "updateAny": UpdateAny,
    "createPodGroups": CreatePodGroups,
    "createCompositePodGroups": CreateCompositePodGroups,
    "createResourceDriver": CreateResourceDriver,
    "allocResourceClaims": AllocResourceClaims,
    "updateDeviceConditions": UpdateDeviceConditions,
    "checkPodScheduled": CheckPodScheduled,
    "waitForPodGroups": CreatePodGroups,
    "startCollectingMetrics": StartCollectingMetrics,
    "stopCollectingMetrics": StopCollectingMetrics,
}

UNBUILT_OPS = frozenset(
    {
        "createResourceClaims",
        *("startCollectingProfile", "stopCollectingProfile"),
    }
)
"""Unsupported operations of upstream, which fail their workload."""


def _seconds(duration: str) -> Fraction:
    return Fraction(parse_duration(duration), SECOND)


def _poll(run: Operations, deadline: Fraction, condition: Callable[[], bool]) -> Generator[Wait, None, bool]:
    """Wait for a condition, asked each second of virtual time up to a deadline; return whether it holds."""
    while not condition():
        if run.clock.exact + 1 > deadline:
            return False
        yield run.sleep(Fraction(1))
    return True


def _perform(
    run: Operations, actions: Iterable[Callable[[], object]], per_second: int, waits: bool = True
) -> Iterable[Wait]:
    """Perform actions at a rate and wait for the last one; a rate of 0 performs all at once."""
    remaining = deque(actions)

    def step() -> bool:
        remaining.popleft()()
        return bool(remaining)

    if not per_second:
        while remaining:
            step()
        return NOTHING
    if not remaining:
        return NOTHING
    seconds = Fraction(len(remaining), per_second)
    run.clock.every(Fraction(1, per_second), step)
    return (Wait(lambda: not remaining, seconds + 1),) if waits else NOTHING


def _recreate(
    run: Operations, template: ObjectTemplate, namespace: str, existing: Object | PodRun | None
) -> Object | PodRun | None:
    """Delete the object, or create it if there is none."""
    if existing is None:
        return _create_new(run, template, namespace)
    if isinstance(existing, PodRun):
        run.cluster.delete_pod(existing, 0)
    else:
        run.cluster.delete(existing)
    return None


def _create_new(run: Operations, template: ObjectTemplate, namespace: str) -> Object | PodRun | None:
    """Create an object, unless its name is taken."""
    obj = template.complete(0, namespace)
    return None if run.cluster.has(obj) else _create(run, obj)


def _create(run: Operations, obj: Object) -> Object | PodRun:
    """Create an object of any kind that scheduling reads."""
    if not isinstance(obj, Pod):
        return run.cluster.create(obj)
    pod = run_of(obj, 1, run.names)
    run.add(pod)
    return pod


def _update(run: Operations, obj: Object) -> None:
    if isinstance(obj, Pod):
        run.update_pod(obj)
    else:
        run.cluster.update(obj)
