"""Rules of groups of pods, those of Kubernetes (v1.38, pkg/apis/scheduling/validation) and others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...field_errors import Fault, Json, invalid, part, required
from ...model.pod_group import GODEL
from ...model.workload import MAX_PODS
from ..field_checks import Rule, Rules
from ..validate_object import claim_faults


def _member_errors(value: Json, path: str, _root: Json, names: tuple[str, ...]) -> Iterator[Fault]:
    """A struct of which exactly one of some fields has to be given."""
    given = [f"`{name}`" for name in names if value.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in names)
    if not given:
        yield Fault(path, invalid("", f"must specify one of: {listed}"))
    elif len(given) > 1:
        yield Fault(path, invalid(f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}"))


def _one_of(*names: str) -> tuple[Rule, ...]:
    return (partial(_member_errors, names=names),)


def _group_errors(value: Json, _path: str, _root: Json) -> Iterator[Fault]:
    """The policy of a group; Gödel's has a number of members in its place."""
    spec, is_godel = part(value, "spec"), str(value.get("apiVersion")).startswith(GODEL)
    policy = "minMember" if is_godel else "schedulingPolicy"
    if spec.get(policy) is None:
        yield Fault(f"spec.{policy}", required())


def _worker_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """More pods than a cluster may have in all groups of a LeaderWorkerSet."""
    pods = (spec.get("replicas") or 0) * (part(spec, "leaderWorkerTemplate").get("size") or 1)
    if pods > MAX_PODS:
        yield Fault(f"{path}.replicas", f"{pods} pods in all groups are more than {MAX_PODS}")


RULES: Rules = {
    "scheduling.v1beta1.PodGroup": (_group_errors,),
    "scheduling.v1beta1.PodGroupSpec": (lambda spec, path, _: claim_faults(spec, path),),
    "scheduling.v1beta1.PodGroupSchedulingPolicy": _one_of("basic", "gang"),
    "scheduling.v1beta1.DisruptionMode": _one_of("single", "all"),
    "scheduling.v1alpha3.CompositePodGroupSchedulingPolicy": _one_of("basic", "gang"),
    "scheduling.v1alpha3.CompositeDisruptionMode": _one_of("single", "all"),
    "LeaderWorkerSetSpec": (_worker_errors,),
}
"""By struct, the rules between its fields."""
