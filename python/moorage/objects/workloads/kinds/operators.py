"""Pods that operators make from other fields than a template, with the requests that they document."""

from __future__ import annotations

import re
from typing import Any

from moorage.errors import InputError

from .kind_values import CHOSEN, Group, Groups, Values, claimed, map_of, maps_of, name_of, number_of, picked

# ---- Ray ---------------------------------------------------------------------------------------------------

_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
_SUBMITTER = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def ray_pods(field: str) -> Any:
    """Return a function that makes the head and the workers of a RayCluster, RayJob or RayService.

    A group has `replicas`, or `minReplicas`, times `numOfHosts` workers. An autoscaler may run beside the
    head, and a RayJob is submitted by a pod, with the requests that KubeRay v1.4 gives them.

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
                head = _with_autoscaler(head, map_of(cluster, "autoscalerOptions"))
            yield Group(f"{name}-head-", 1, head, f"{path}.headGroupSpec.template")
        for at, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            where = f"{path}.workerGroupSpecs[{at}]"
            count = 0 if group.get("suspend") else _ray_workers(group, where)
            worker = f"{name}-{group.get('groupName')}-worker-"
            yield Group(worker, count, map_of(group, "template"), f"{where}.template")
        if obj.get("kind") == "RayJob" and spec.get("submissionMode") in (None, "", "K8sJobMode"):
            container = {"name": "ray-job-submitter", "image": "ray", "resources": _SUBMITTER}
            template = map_of(spec, "submitterPodTemplate") or {"spec": {"containers": [container]}}
            yield Group(f"{name}-", 1, template, "spec.submitterPodTemplate")

    return groups


def _ray_workers(group: Values, path: str) -> int:
    least = number_of(group.get("minReplicas"), 0, f"{path}.minReplicas")
    most = number_of(group.get("maxReplicas"), 2**31 - 1, f"{path}.maxReplicas")
    replicas = number_of(group.get("replicas"), least, f"{path}.replicas")
    return min(max(replicas, least), most) * number_of(group.get("numOfHosts"), 1, f"{path}.numOfHosts")


def _with_autoscaler(template: Values, options: Values) -> Values:
    resources = map_of(options, "resources") or {"requests": _AUTOSCALER, "limits": _AUTOSCALER}
    container = {"name": "autoscaler", "image": "ray", "resources": resources}
    spec = map_of(template, "spec")
    return template | {"spec": spec | {"containers": [*(spec.get("containers") or ()), container]}}


# ---- Spark -------------------------------------------------------------------------------------------------

_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?i?")
_UNITS = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2, "p": 1024**3}
_MIN_OVERHEAD = 384  # MiB
_EXECUTORS = 2


def spark_pods(obj: Values) -> Groups:
    """Return the driver and the executors of a SparkApplication.

    A pod requests its memory with an overhead: `memoryOverhead`, or a tenth (0.4 for Python and R), 384 MiB
    at least (Spark 3.5, running on Kubernetes; `spark.executor.instances` is 2).
    """
    spec, name = map_of(obj, "spec"), name_of(obj)
    if spec.get("mode", "cluster") == "cluster":
        yield Group(f"{name}-driver", 1, _spark_template(spec, "driver"), "spec.driver")
    dynamic = map_of(spec, "dynamicAllocation")
    given = map_of(spec, "executor").get("instances")
    count = number_of(given, 0 if dynamic.get("enabled") else _EXECUTORS, "spec.executor.instances")
    if dynamic.get("enabled"):
        limits = [dynamic.get(field) for field in ("initialExecutors", "minExecutors")]
        count = max(count, *(number_of(limit, 0, "spec.dynamicAllocation") for limit in limits))
    yield Group(f"{name}-exec-{{index}}", count, _spark_template(spec, "executor"), "spec.executor", 1)


def _spark_template(spec: Values, role: str) -> Values:
    own, path = map_of(spec, role), f"spec.{role}"
    template = map_of(own, "template")
    memory = _mebibytes(own.get("memory") or "1g", f"{path}.memory")
    if own.get("memoryOverhead"):
        overhead = _mebibytes(own["memoryOverhead"], f"{path}.memoryOverhead")
    else:
        factor = spec.get("memoryOverheadFactor") or (0.4 if spec.get("type") in ("Python", "R") else 0.1)
        overhead = max(int(float(factor) * memory), _MIN_OVERHEAD)
    requests = {
        "cpu": own.get("coreRequest") or str(own.get("cores") or 1),
        "memory": f"{memory + overhead}Mi",
    }
    limits = {"memory": requests["memory"]} | ({"cpu": own["coreLimit"]} if own.get("coreLimit") else {})
    if gpu := map_of(own, "gpu"):
        limits[str(gpu.get("name"))] = str(gpu.get("quantity", 1))
    container = {
        "name": f"spark-kubernetes-{role}",
        "image": own.get("image") or spec.get("image") or "spark",
    }
    container |= {"resources": {"requests": requests, "limits": limits}}
    others = [one for one in map_of(template, "spec").get("containers") or () if isinstance(one, dict)]
    scheduler = {"volcano": "volcano", "yunikorn": "yunikorn"}.get(str(spec.get("batchScheduler")))
    made = map_of(template, "spec") | picked(spec, "nodeSelector") | picked(own, *CHOSEN)
    made |= {"schedulerName": scheduler} if scheduler else {}
    made["containers"] = [container, *others[1:], *(own.get("sidecars") or ())]
    made |= picked(own, "initContainers")
    labels = map_of(template, "metadata", "labels") | map_of(own, "labels") | {"spark-role": role}
    return {"metadata": {"labels": labels, "annotations": map_of(own, "annotations")}, "spec": made}


def _mebibytes(text: Any, path: str) -> int:
    """Return a size as Spark writes it, in MiB, which a number without a unit is in."""
    found = _SIZE.fullmatch(str(text).lower())
    if found is None:
        raise InputError(f"{text!r} is not a size of memory", path=path)
    return int(int(found[1]) * _UNITS[found[2]])


# ---- CloudNativePG -----------------------------------------------------------------------------------------


def postgres_instances(obj: Values) -> Groups:
    """Return the instances of a Cluster of CloudNativePG, with a claim for each of its volumes.

    By default they prefer to be on different nodes.
    """
    spec, name, annotations = map_of(obj, "spec"), name_of(obj), map_of(obj, "metadata", "annotations")
    count = number_of(spec.get("instances"), 1, "spec.instances")
    affinity = map_of(spec, "affinity")
    made = picked(spec, "topologySpreadConstraints", "priorityClassName", "schedulerName")
    made |= picked(affinity, "nodeSelector", "tolerations")
    made["affinity"] = _postgres_affinity(affinity, name)
    image = spec.get("imageName") or "postgresql"
    made["containers"] = [{"name": "postgres", "image": image, "resources": map_of(spec, "resources")}]
    storage = {"pgdata": map_of(spec, "storage"), "pg-wal": map_of(spec, "walStorage")}
    made["volumes"] = [
        claimed(volume, one.get("size"), one.get("storageClass")) for volume, one in storage.items() if one
    ]
    labels = {"cnpg.io/cluster": name, "cnpg.io/podRole": "instance"}
    count = 0 if annotations.get("cnpg.io/hibernation") == "on" else count
    yield Group(f"{name}-{{index}}", count, {"metadata": {"labels": labels}, "spec": made}, "spec", 1)


def _postgres_affinity(affinity: Values, name: str) -> Values:
    anti = dict(map_of(affinity, "additionalPodAntiAffinity"))
    if affinity.get("enablePodAntiAffinity", True):
        labels = {"cnpg.io/cluster": name, "cnpg.io/podRole": "instance"}
        selector = {"matchLabels": labels}
        term = {
            "labelSelector": selector,
            "topologyKey": affinity.get("topologyKey") or "kubernetes.io/hostname",
        }
        if affinity.get("podAntiAffinityType") == "required":
            field, entry = "requiredDuringSchedulingIgnoredDuringExecution", term
        else:
            field = "preferredDuringSchedulingIgnoredDuringExecution"
            entry = {"weight": 100, "podAffinityTerm": term}
        anti[field] = [*(anti.get(field) or ()), entry]
    made = {"podAntiAffinity": anti} if anti else {}
    made |= (
        {"podAffinity": affinity["additionalPodAffinity"]} if affinity.get("additionalPodAffinity") else {}
    )
    return made | picked(affinity, "nodeAffinity")


def pgbouncer_pods(obj: Values) -> Groups:
    """Return the pods of a Pooler of CloudNativePG: PgBouncer, in the template that it may have."""
    spec, name = map_of(obj, "spec"), name_of(obj)
    count = number_of(spec.get("instances"), 1, "spec.instances")
    template = map_of(spec, "template")
    pod, labels = map_of(template, "spec"), {"cnpg.io/poolerName": name, "cnpg.io/podRole": "pooler"}
    containers = maps_of(pod.get("containers"))
    if not any(one.get("name") == "pgbouncer" for one in containers):
        containers = [{"name": "pgbouncer", "image": "pgbouncer"}, *containers]
    metadata = map_of(template, "metadata")
    metadata = metadata | {"labels": map_of(metadata, "labels") | labels}
    yield Group(
        f"{name}-",
        count,
        {"metadata": metadata, "spec": pod | {"containers": containers}},
        "spec.template",
    )


# ---- Strimzi -----------------------------------------------------------------------------------------------


def kafka_nodes(obj: Values) -> Groups:
    """Return the nodes of a KafkaNodePool, with a claim for each of its persistent volumes."""
    spec, name = map_of(obj, "spec"), name_of(obj)
    cluster = str(map_of(obj, "metadata", "labels").get("strimzi.io/cluster", ""))
    prefix = f"{cluster}-{name}" if cluster else name
    labels = {
        "strimzi.io/cluster": cluster,
        "strimzi.io/pool-name": name,
        "strimzi.io/name": f"{cluster}-kafka",
    }
    yield _kafka_group(spec, f"{prefix}-{{index}}", labels, "spec")


def kafka_pods(obj: Values) -> Groups:
    """Return the pods of a Kafka: brokers that are in no pool, ZooKeeper, and the other components."""
    spec, name = map_of(obj, "spec"), name_of(obj)
    for part in ("kafka", "zookeeper"):
        if map_of(spec, part).get("replicas") and not _uses_pools(obj, part):
            labels = {"strimzi.io/cluster": name, "strimzi.io/name": f"{name}-{part}"}
            yield _kafka_group(map_of(spec, part), f"{name}-{part}-{{index}}", labels, f"spec.{part}")
    for field, suffix in (("kafkaExporter", "kafka-exporter"), ("cruiseControl", "cruise-control")):
        if field in spec:
            one = map_of(spec, field) | {"replicas": 1}
            yield _kafka_group(one, f"{name}-{suffix}-", {"strimzi.io/cluster": name}, f"spec.{field}")
    if operator := map_of(spec, "entityOperator"):
        path, parts = "spec.entityOperator", ("topicOperator", "userOperator")
        containers = [
            {"name": part.lower(), "image": "strimzi", "resources": map_of(operator, part, "resources")}
            for part in parts
            if part in operator
        ]
        group = _kafka_group(
            operator | {"replicas": int(bool(containers))}, f"{name}-entity-operator-", {}, path
        )
        group.template["spec"]["containers"] = containers
        yield group


def _uses_pools(obj: Values, part: str) -> bool:
    annotations = map_of(obj, "metadata", "annotations")
    return part == "kafka" and annotations.get("strimzi.io/node-pools") == "enabled"


def kafka_clients(suffix: str) -> Any:
    """Return a function that makes the pods of a KafkaConnect and others of its kind.

    Parameters
    ----------
    suffix : str
        What follows the name of the object in the names of pods.
    """

    def groups(obj: Values) -> Groups:
        spec, name = map_of(obj, "spec"), name_of(obj)
        yield _kafka_group(spec, f"{name}-{suffix}-{{index}}", {"strimzi.io/cluster": name}, "spec")

    return groups


def _kafka_group(spec: Values, name: str, labels: Values, path: str) -> Group:
    pod = map_of(spec, "template", "pod")
    container = {"name": "kafka", "image": "strimzi", "resources": map_of(spec, "resources")}
    storage = map_of(spec, "storage")
    disks = storage.get("volumes") or () if storage.get("type") == "jbod" else (storage,)
    volumes = [
        claimed(f"data-{at}", disk.get("size"), disk.get("class"))
        for at, disk in enumerate(disks)
        if isinstance(disk, dict) and disk.get("type") == "persistent-claim"
    ]
    made = picked(pod, *CHOSEN) | {"containers": [container], "volumes": volumes}
    metadata = {"labels": labels | map_of(pod, "metadata", "labels")}
    count = number_of(spec.get("replicas"), 1, f"{path}.replicas")
    return Group(name, count, {"metadata": metadata, "spec": made}, path)
