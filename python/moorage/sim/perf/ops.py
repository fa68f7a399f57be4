"""The operations of a workload, as they stand in the file (kubernetes v1.36, operations.go)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from moorage.framework.configuration.reading.durations import parse_duration
from moorage.objects.model.storage import VolumeNodeResources

MOST = 10_000_000
"""The most objects that an operation makes: more than there is memory for is a mistake in the file."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Params = dict[str, Any]


class Op(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A field ``xParam`` names, with a dollar sign, the workload's parameter that x is taken from."""

    opcode: str

    def unbuilt(self) -> str:
        """What of this operation cannot run yet, or ""."""
        return ""

    def wrong(self) -> tuple[str, str]:
        """A field, and what is wrong with it; empty texts where nothing is. Parameters were filled in."""
        return "", ""

    def templates(self) -> list[str]:
        """The template files that it names."""
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


def _bad_duration(text: str) -> tuple[str, str]:
    try:
        parse_duration(text)
    except ValueError as error:
        return "duration", str(error)
    return "", ""


class LabelNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    label_key: str
    label_values: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class UniqueNodeLabel(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    label_key: str


class NodeAllocatable(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    node_allocatable: dict[str, str | int | float] = {}
    csi_node_allocatable: dict[str, VolumeNodeResources] = {}
    migrated_plugins: tuple[str, ...] = ()


class CreateNodes(Op, frozen=True):
    count: Count = 0
    count_param: str = ""
    node_template_path: str = ""
    template_params: Params = {}
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None

    def wrong(self) -> tuple[str, str]:
        strategies = (
            self.node_allocatable_strategy,
            self.label_node_prepare_strategy,
            self.unique_node_label_strategy,
        )
        several = sum(strategy is not None for strategy in strategies) > 1
        return ("nodeAllocatableStrategy", "at most one strategy") if several else ("", "")


class CreateNamespaces(Op, frozen=True):
    prefix: str
    count: Count = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(Op, frozen=True):
    count: Count = 0
    count_param: str = ""
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
    template_params: Params = {}
    signature_batch_size: Count = 0
    signature_batch_size_param: str = ""

    def wrong(self) -> tuple[str, str]:
        if self.collect_metrics and self.skip_wait_to_completion:
            return "collectMetrics", "cannot be combined with skipWaitToCompletion"
        if self.persistent_volume_claim_template_path and not self.persistent_volume_template_path:
            return "persistentVolumeTemplatePath", "required beside persistentVolumeClaimTemplatePath"
        if self.persistent_volume_claim_template_path and self.steady_state:
            return "persistentVolumeClaimTemplatePath", "cannot be combined with steadyState"
        return _bad_duration(self.duration or "0")


class CreatePodSets(Op, frozen=True):
    namespace_prefix: str
    create_pods_op: CreatePods
    count: Count = 0
    count_param: str = ""

    def wrong(self) -> tuple[str, str]:
        if self.count * self.create_pods_op.count > MOST:
            return "count", f"more than {MOST} pods in all"
        field, message = self.create_pods_op.wrong()
        return (f"createPodsOp.{field}", message) if field else ("", "")


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

    def wrong(self) -> tuple[str, str]:
        endless = self.mode == "recreate" and not self.number
        return ("number", "must be at least 1 in mode recreate") if endless else ("", "")


class Barrier(Op, frozen=True):
    namespaces: tuple[str, ...] = ()
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"


class Sleep(Op, frozen=True):
    duration: str = ""
    duration_param: str = ""

    def wrong(self) -> tuple[str, str]:
        return _bad_duration(self.duration) if self.duration else ("duration", "required")


class CreateAny(Op, frozen=True):
    template_path: str
    namespace: str = ""
    count: Count = 1
    count_param: str = ""
    template_params: Params = {}


class CreatePodGroups(Op, frozen=True):
    """Also ``waitForPodGroups``, as earlier files call it."""

    template_path: str
    namespace: str
    count: Count = 0
    count_param: str = ""
    template_params: Params = {}


class UpdateAny(Op, frozen=True):
    template_path: str
    namespace: str = ""
    count: Count = 1
    count_param: str = ""
    update_per_second: Count = 0
    subresources: tuple[str, ...] = ()
    template_params: Params = {}


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
    """An operation that cannot run yet; its other fields are not looked at."""

    def unbuilt(self) -> str:
        return self.opcode
