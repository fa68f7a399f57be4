"""Operations of a workload as in the file (kubernetes v1.36, operations.go)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from moorage.errors import InputError, located
from moorage.framework.configuration.reading.durations import parse_duration
from moorage.objects.model.storage import VolumeNodeResources

MOST = 10_000_000
"""The most objects that an operation makes: more than there is memory for is a mistake in the file."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Params = dict[str, Any]


class Op(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An operation. A field ``xParam`` contains the name of the workload's parameter, after a dollar sign,
    that is the value of x."""

    opcode: str

    def check(self) -> None:
        """Check the operation after its parameters have been filled in.

        Raises
        ------
        InputError
            Names the field.
        """

    def templates(self) -> list[str]:
        """Paths of the template files of the operation."""
        found: list[str] = []
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if field.endswith("template_path") and value:
                found.append(value)
            elif field == "template_paths":
                found += value
            elif isinstance(value, Op):
                found += value.templates()
        return found


def _check_duration(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError as error:
        raise InputError(str(error), path="duration") from None


class CountedOp(Op, frozen=True, kw_only=True):
    count: Count = 0
    count_param: str = ""


class TemplateOp(CountedOp, frozen=True, kw_only=True):
    template_params: Params = {}


class LabelNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    label_key: str
    label_values: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class UniqueNodeLabel(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    label_key: str


class NodeAllocatable(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    node_allocatable: dict[str, str | int | float] = {}
    csi_node_allocatable: dict[str, VolumeNodeResources] = {}
    migrated_plugins: tuple[str, ...] = ()


class CreateNodes(TemplateOp, frozen=True):
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None

    def check(self) -> None:
        strategies = (
            self.node_allocatable_strategy,
            self.label_node_prepare_strategy,
            self.unique_node_label_strategy,
        )
        if sum(strategy is not None for strategy in strategies) > 1:
            raise InputError("at most one strategy", path="nodeAllocatableStrategy")


class CreateNamespaces(CountedOp, frozen=True):
    prefix: str
    namespace_template_path: str = ""


class CreatePods(TemplateOp, frozen=True):
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
        if self.persistent_volume_claim_template_path and not self.persistent_volume_template_path:
            raise InputError(
                "required beside persistentVolumeClaimTemplatePath", path="persistentVolumeTemplatePath"
            )
        if self.persistent_volume_claim_template_path and self.steady_state:
            raise InputError("cannot be combined with steadyState", path="persistentVolumeClaimTemplatePath")
        _check_duration(self.duration or "0")


class CreatePodSets(CountedOp, frozen=True):
    namespace_prefix: str
    create_pods_op: CreatePods

    def check(self) -> None:
        if self.count * self.create_pods_op.count > MOST:
            raise InputError(f"more than {MOST} pods in all", path="count")
        with located(path="createPodsOp"):
            self.create_pods_op.check()


class DeletePods(Op, frozen=True):
    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: Count = 0
    skip_wait_to_completion: bool = False


class Churn(Op, frozen=True):
    mode: Literal["create", "recreate"]
    template_paths: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    number: Count = 0
    interval_milliseconds: Count = 0
    namespace: str = ""

    def check(self) -> None:
        if self.mode == "recreate" and not self.number:
            raise InputError("must be at least 1 in mode recreate", path="number")


class Barrier(Op, frozen=True):
    namespaces: tuple[str, ...] = ()
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"


class Sleep(Op, frozen=True):
    duration: str = ""
    duration_param: str = ""

    def check(self) -> None:
        if not self.duration:
            raise InputError("required", path="duration")
        _check_duration(self.duration)


class CreateAny(TemplateOp, frozen=True, kw_only=True):
    template_path: str
    namespace: str = ""
    count: Count = 1


class CreatePodGroups(TemplateOp, frozen=True):
    """Also ``waitForPodGroups``, its name in earlier files."""

    template_path: str
    namespace: str


class UpdateAny(TemplateOp, frozen=True, kw_only=True):
    template_path: str
    namespace: str = ""
    count: Count = 1
    update_per_second: Count = 0
    subresources: tuple[str, ...] = ()


class StartCollectingMetrics(Op, frozen=True):
    namespaces: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    name: str = ""
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Op, frozen=True):
    pass


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
    "waitForPodGroups": CreatePodGroups,
    "startCollectingMetrics": StartCollectingMetrics,
    "stopCollectingMetrics": StopCollectingMetrics,
}

UNBUILT_OPS = frozenset(
    {
        "allocResourceClaims",
        "checkPodScheduled",
        "createCompositePodGroups",
        "createResourceClaims",
        "createResourceDriver",
        "startCollectingProfile",
        "stopCollectingProfile",
        "updateDeviceConditions",
    }
)
"""Operations of upstream's that are read, and fail their workload."""


class UnbuiltOp(Op, frozen=True):
    """An operation that cannot run yet; its other fields are not read."""
