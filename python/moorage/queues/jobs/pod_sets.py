"""The sets of pods of jobs, as the integrations of Kueue make them (v0.17, pkg/controller/jobs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube.apiserver.decode import decode
from moorage.kube.model.kueue import PodSet, TopologyRequest
from moorage.kube.model.meta import ObjectMeta, whole_number
from moorage.kube.model.workload import KUEUE, MIN_PARALLELISM, Job, LeaderWorkerSet, PodTemplateSpec
from moorage.kube.workloads.kind_rules import map_of, maps_of, number_of

Values = dict[str, Any]

_TRAINING = {
    "PyTorchJob": ("pytorchReplicaSpecs", ("Master", "Worker")),
    "TFJob": ("tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    "XGBoostJob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "PaddleJob": ("paddleReplicaSpecs", ("Master", "Worker")),
    "JAXJob": ("jaxReplicaSpecs", ("Worker",)),
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
}
"""Where the kinds of kubeflow have their templates, and in which order Kueue takes them."""
_SUBMITTER = {
    "name": "ray-job-submitter",
    "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    },
}


def pod_set(name: str, count: int, template: PodTemplateSpec, least: int | None = None) -> PodSet:
    """Return a set of pods; its template says by annotations which topology it asks for.

    Parameters
    ----------
    least : int, optional
        The fewest pods with which the job starts.
    """
    request = _topology_request(template.metadata)
    return PodSet(
        name=name.lower(), count=count, min_count=least, template=template, topology_request=request
    )


def _topology_request(metadata: ObjectMeta) -> TopologyRequest | None:
    def given(what: str) -> str | None:
        return metadata.annotations.get(f"{KUEUE}/podset-{what}")

    required, preferred, free = (
        given(f"{kind}-topology") for kind in ("required", "preferred", "unconstrained")
    )
    slices, size = given("slice-required-topology"), given("slice-size")
    if required is not None:
        request = TopologyRequest(required=required)
    elif preferred is not None:
        request = TopologyRequest(preferred=preferred)
    elif free is not None:
        request = TopologyRequest(unconstrained=free.lower() in ("1", "t", "true"))
    elif slices is None or size is None:
        return None
    else:
        request = TopologyRequest()
    if slices is not None and size is not None:
        number = whole_number(size)
        if number is None:
            path = f"metadata.annotations[{KUEUE}/podset-slice-size]"
            raise InputError(f'"{size}" is no number', path=path)
        request = replace(request, pod_set_slice_required_topology=slices, pod_set_slice_size=number)
    group = given("group-name")
    is_together = group is not None and (required is not None or preferred is not None)
    return replace(request, pod_set_group_name=group) if is_together else request


def of_job(job: Job) -> list[PodSet]:
    """Return the pods of a Job."""
    spec = job.spec
    count = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        count = min(count, spec.completions)
    least = whole_number(job.metadata.annotations.get(MIN_PARALLELISM, ""))
    return [pod_set("main", count, spec.template, least)]


def of_groups(groups: LeaderWorkerSet) -> list[PodSet]:
    """Return the pods of one group of a LeaderWorkerSet."""
    parts = groups.spec.leader_worker_template
    size = parts.size or 1
    if parts.leader_template is None:
        return [pod_set("main", size, parts.worker_template)]
    return [pod_set("leader", 1, parts.leader_template), pod_set("worker", size - 1, parts.worker_template)]


def of_values(value: Values) -> list[PodSet]:
    """Return the pods of an object of another project, by set.

    Parameters
    ----------
    value : dict
        An object of one of `QUEUED` as a JSON value.

    Raises
    ------
    InputError
        A field has a wrong type.
    """
    kind, spec = str(value.get("kind")), map_of(value, "spec")
    if kind in _TRAINING:
        return list(_of_training(spec, *_TRAINING[kind]))
    if kind == "JobSet":
        parts = maps_of(spec.get("replicatedJobs"))
        return [_of_replicated_job(part, at) for at, part in enumerate(parts)]
    if kind == "RayCluster":
        return list(_of_ray_cluster(spec, "spec"))
    sets = list(_of_ray_cluster(map_of(spec, "rayClusterSpec"), "spec.rayClusterSpec"))
    if spec.get("submissionMode") in (None, "", "K8sJobMode"):
        template = map_of(spec, "submitterPodTemplate") or {"spec": {"containers": [_SUBMITTER]}}
        sets.append(pod_set("submitter", 1, _template(template)))
    return sets


def _template(value: Values) -> PodTemplateSpec:
    return decode(value, PodTemplateSpec)


def _of_training(spec: Values, field: str, order: tuple[str, ...]) -> Iterator[PodSet]:
    for kind in order:
        if part := map_of(spec, field, kind):
            count = number_of(part.get("replicas"), 1, f"spec.{field}.{kind}.replicas")
            yield pod_set(kind, count, _template(map_of(part, "template")))


def _of_replicated_job(part: Values, at: int) -> PodSet:
    path, job = f"spec.replicatedJobs[{at}]", map_of(part, "template", "spec")
    pods = number_of(job.get("parallelism"), 1, f"{path}.template.spec.parallelism")
    pods = min(pods, number_of(job.get("completions"), pods, f"{path}.template.spec.completions"))
    count = pods * number_of(part.get("replicas"), 1, f"{path}.replicas")
    return pod_set(str(part.get("name")), count, _template(map_of(job, "template")))


def _of_ray_cluster(cluster: Values, path: str) -> Iterator[PodSet]:
    yield pod_set("head", 1, _template(map_of(cluster, "headGroupSpec", "template")))
    for at, group in enumerate(maps_of(cluster.get("workerGroupSpecs"))):
        where = f"{path}.workerGroupSpecs[{at}]"
        count = number_of(group.get("replicas"), 1, f"{where}.replicas")
        count *= max(1, number_of(group.get("numOfHosts"), 1, f"{where}.numOfHosts"))
        yield pod_set(str(group.get("groupName")), count, _template(map_of(group, "template")))
