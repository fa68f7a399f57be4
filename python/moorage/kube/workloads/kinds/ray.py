"""The pods of Ray clusters, as KubeRay v1.7 makes them of their templates."""

from __future__ import annotations

from typing import Any

from .kind_values import Group, Groups, Values, map_of, name_of, number_of


def _same(cpu: str, memory: str) -> Values:
    """Return resources with equal requests and limits."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


_AUTOSCALER = _same("500m", "512Mi")
_WAITS = {"name": "wait-gcs-ready", "image": "ray", "resources": _same("200m", "256Mi")}
"""The init container of a worker, which waits for the head."""
_SUBMITTER = {
    "name": "ray-job-submitter",
    "image": "ray",
    "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    },
}


def ray_pods(field: str) -> Any:
    """Return a function that makes the head and the workers of a RayCluster, RayJob or RayService.

    A group has `replicas`, or `minReplicas`, times `numOfHosts` workers. An autoscaler may run beside the
    head, and a Job submits a RayJob.

    Parameters
    ----------
    field : str
        The field of the spec with the cluster; "" for a RayCluster.
    """

    def groups(obj: Values) -> Groups:
        spec, name = map_of(obj, "spec"), name_of(obj)
        cluster, path = (map_of(spec, field), f"spec.{field}") if field else (spec, "spec")
        if head := map_of(cluster, "headGroupSpec", "template"):
            if cluster.get("enableInTreeAutoscaling"):
                resources = map_of(cluster, "autoscalerOptions", "resources") or _AUTOSCALER
                autoscaler = {"name": "autoscaler", "image": "ray", "resources": resources}
                head = _with(head, "containers", autoscaler)
            yield Group(f"{name}-head-", 1, head, f"{path}.headGroupSpec.template")
        for at, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            where = f"{path}.workerGroupSpecs[{at}]"
            count = 0 if group.get("suspend") else _workers(group, where)
            template = _with(map_of(group, "template"), "initContainers", _WAITS)
            yield Group(f"{name}-{group.get('groupName')}-worker-", count, template, f"{where}.template")
        if obj.get("kind") == "RayJob" and spec.get("submissionMode") in (None, "", "K8sJobMode"):
            template = map_of(spec, "submitterPodTemplate") or {"spec": {"containers": [_SUBMITTER]}}
            job = {"spec": {"template": template}}
            yield Group(name, 1, job, "spec.submitterPodTemplate", is_job=True)

    return groups


def _workers(group: Values, path: str) -> int:
    least = number_of(group.get("minReplicas"), 0, f"{path}.minReplicas")
    most = number_of(group.get("maxReplicas"), 2**31 - 1, f"{path}.maxReplicas")
    replicas = number_of(group.get("replicas"), least, f"{path}.replicas")
    return min(max(replicas, least), most) * number_of(group.get("numOfHosts"), 1, f"{path}.numOfHosts")


def _with(template: Values, field: str, container: Values) -> Values:
    """Return a template with one more container at the end of a list of them."""
    spec = map_of(template, "spec")
    return template | {"spec": spec | {field: [*(spec.get(field) or ()), container]}}
