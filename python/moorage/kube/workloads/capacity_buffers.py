"""Room that Karpenter keeps free: pods that CapacityBuffers stand for.

Rules: Karpenter v1.15.0, pkg/controllers/capacitybuffer, pkg/state/virtualpods and pkg/utils/apps.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from moorage._core.base.quantity import parse
from moorage._core.base.resources import pod_requests

from ..go_texts import timestamp
from ..model.autoscaling import CapacityBuffer, ScalableRef
from ..model.meta import Object, ObjectMeta
from ..model.pod import Pod
from ..model.workload import MAX_PODS, Deployment, PodTemplate, PodTemplateSpec, ReplicaSet, StatefulSet

Find = Callable[[str, str], Object | None]
"""An object of a kind and key, if it is there."""
_BUFFER = "karpenter.sh/capacity-buffer-name"
_SCALABLE = ("Deployment", "StatefulSet", "ReplicaSet")


def buffer_of(pod: Pod) -> str:
    """The key of the buffer that a pod stands for; "" for a real pod."""
    name = pod.metadata.annotations.get(_BUFFER)
    return f"{pod.namespace}/{name}" if name else ""


def buffer_pods(buffer: CapacityBuffer, find: Find, now: float) -> list[Pod]:
    """Return the pods that a buffer stands for.

    Parameters
    ----------
    now : float
        When the pods come, in seconds since 1970.

    Raises
    ------
    LookupError
        Says why there are none.
    """
    template, replicas = _template(buffer, find)
    spec = template.spec
    volumes = tuple([each for each in spec.volumes if not (each.persistent_volume_claim or each.ephemeral)])
    pod = Pod(
        metadata=ObjectMeta(
            namespace=buffer.namespace,
            labels=template.metadata.labels,
            annotations={_BUFFER: buffer.name},
            creation_timestamp=timestamp(int(now)),
        ),
        spec=replace(spec, node_name="", volumes=volumes, priority=-(2**31)),
    )
    size = _size(buffer, pod, replicas)
    if not size:
        raise LookupError("Buffer has zero desired replicas")
    uid, name = buffer.metadata.uid or buffer.key, f"capacity-buffer-{buffer.name}"
    return [
        replace(pod, metadata=replace(pod.metadata, name=f"{name}-{n}", uid=f"{uid}-{n}"))
        for n in range(1, size + 1)
    ]


def _template(buffer: CapacityBuffer, find: Find) -> tuple[PodTemplateSpec, int]:
    """The template of the pods, and the replicas of the workload that has it; 0 for none."""
    reference = buffer.spec.pod_template_ref or buffer.spec.scalable_ref
    if reference is None:
        raise LookupError("Neither podTemplateRef nor scalableRef is set")
    kind = PodTemplate.__name__
    if isinstance(reference, ScalableRef):
        kind = reference.kind
        if reference.api_group not in ("", "apps"):
            raise LookupError(f'unsupported scalableRef API group "{reference.api_group}"')
        if kind not in _SCALABLE:
            raise LookupError(f'unsupported kind "{kind}"')
    there = find(kind, f"{buffer.namespace}/{reference.name}")
    if isinstance(there, PodTemplate):
        return there.template, 0
    if isinstance(there, Deployment | StatefulSet | ReplicaSet):
        return there.spec.template, 1 if there.spec.replicas is None else there.spec.replicas
    raise LookupError(f'{kind} "{reference.name}" not found')


def _size(buffer: CapacityBuffer, pod: Pod, replicas: int) -> int:
    """How many pods a buffer stands for; `replicas` are those of its workload."""
    spec, wanted = buffer.spec, list[int]()
    if spec.percentage is not None and replicas:
        wanted.append(max(-(-replicas * spec.percentage // 100), min(spec.percentage, 1)))
    if spec.replicas is not None:
        wanted.append(spec.replicas)
    requests = pod_requests(pod)
    fitting: list[int] = [
        parse(limit).milli_value() // requests[name].milli_value()
        for name, limit in spec.limits.items()
        if name in requests and requests[name].sign()
    ]
    if not fitting:
        return max(wanted, default=0)
    return max(min(*fitting, max(wanted, default=MAX_PODS)), 0)
