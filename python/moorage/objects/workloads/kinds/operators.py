"""Pods that operators make from other fields than a template, with the requests that they document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from moorage._core.base.quantity import parse_value
from moorage.errors import InputError

Values = dict[str, Any]
"""An object as a JSON value."""
_MEBI = 1 << 20


class Group(NamedTuple):
    """Pods of one template that an object asks for.

    Attributes
    ----------
    name : str
        Name of the pods; one that ends in ``-`` is completed at random, and ``{index}`` counts the pods.
    number : int
    template : dict
        Metadata and spec, as a JSON value.
    path : str
        Of the template in the object, for errors.
    first : int
        The first index.
    """

    name: str
    number: int
    template: Values
    path: str = "spec"
    first: int = 0


Groups = Iterator[Group]


def _map(value: Any, *names: str) -> Values:
    """Return a map inside of a map; empty if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _number(value: Any, default: int, path: str) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError("not a whole number", path=path)
    return value


def _picked(value: Values, *names: str) -> Values:
    """Return those fields of a map that are set."""
    return {name: value[name] for name in names if value.get(name) is not None}


def _name(obj: Values) -> str:
    return str(_map(obj, "metadata").get("name", ""))


_PLACING = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints", "priorityClassName")
_CHOSEN = (*_PLACING, "schedulerName", "runtimeClassName", "hostNetwork")


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

    Returns
    -------
    callable
    """

    def groups(obj: Values) -> Groups:
        spec, name = _map(obj, "spec"), _name(obj)
        cluster, path = (_map(spec, field), f"spec.{field}") if field else (spec, "spec")
        if head := _map(cluster, "headGroupSpec", "template"):
            if cluster.get("enableInTreeAutoscaling"):
                head = _with_autoscaler(head, _map(cluster, "autoscalerOptions"))
            yield Group(f"{name}-head-", 1, head, f"{path}.headGroupSpec.template")
        for at, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            where = f"{path}.workerGroupSpecs[{at}]"
            count = 0 if group.get("suspend") else _ray_workers(group, where)
            worker = f"{name}-{group.get('groupName')}-worker-"
            yield Group(worker, count, _map(group, "template"), f"{where}.template")
        if obj.get("kind") == "RayJob" and spec.get("submissionMode") in (None, "", "K8sJobMode"):
            container = {"name": "ray-job-submitter", "image": "ray", "resources": _SUBMITTER}
            template = _map(spec, "submitterPodTemplate") or {"spec": {"containers": [container]}}
            yield Group(f"{name}-", 1, template, "spec.submitterPodTemplate")

    return groups


def _ray_workers(group: Values, path: str) -> int:
    least = _number(group.get("minReplicas"), 0, f"{path}.minReplicas")
    most = _number(group.get("maxReplicas"), 2**31 - 1, f"{path}.maxReplicas")
    replicas = _number(group.get("replicas"), least, f"{path}.replicas")
    return min(max(replicas, least), most) * _number(group.get("numOfHosts"), 1, f"{path}.numOfHosts")


def _with_autoscaler(template: Values, options: Values) -> Values:
    resources = _map(options, "resources") or {"requests": _AUTOSCALER, "limits": _AUTOSCALER}
    container = {"name": "autoscaler", "image": "ray", "resources": resources}
    spec = _map(template, "spec")
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

    Parameters
    ----------
    obj : dict
    """
    spec, name = _map(obj, "spec"), _name(obj)
    if spec.get("mode", "cluster") == "cluster":
        yield Group(f"{name}-driver", 1, _spark_template(spec, "driver"), "spec.driver")
    dynamic = _map(spec, "dynamicAllocation")
    given = _map(spec, "executor").get("instances")
    count = _number(given, 0 if dynamic.get("enabled") else _EXECUTORS, "spec.executor.instances")
    if dynamic.get("enabled"):
        limits = [dynamic.get(field) for field in ("initialExecutors", "minExecutors")]
        count = max(count, *(_number(limit, 0, "spec.dynamicAllocation") for limit in limits))
    yield Group(f"{name}-exec-{{index}}", count, _spark_template(spec, "executor"), "spec.executor", 1)


def _spark_template(spec: Values, role: str) -> Values:
    own, path = _map(spec, role), f"spec.{role}"
    template = _map(own, "template")
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
    if gpu := _map(own, "gpu"):
        limits[str(gpu.get("name"))] = str(gpu.get("quantity", 1))
    container = {
        "name": f"spark-kubernetes-{role}",
        "image": own.get("image") or spec.get("image") or "spark",
    }
    container |= {"resources": {"requests": requests, "limits": limits}}
    others = [one for one in _map(template, "spec").get("containers") or () if isinstance(one, dict)]
    scheduler = {"volcano": "volcano", "yunikorn": "yunikorn"}.get(str(spec.get("batchScheduler")))
    made = _map(template, "spec") | _picked(spec, "nodeSelector") | _picked(own, *_CHOSEN)
    made |= {"schedulerName": scheduler} if scheduler else {}
    made["containers"] = [container, *others[1:], *(own.get("sidecars") or ())]
    made |= _picked(own, "initContainers")
    labels = _map(template, "metadata", "labels") | _map(own, "labels") | {"spark-role": role}
    return {"metadata": {"labels": labels, "annotations": _map(own, "annotations")}, "spec": made}


def _mebibytes(text: Any, path: str) -> int:
    """Return a size as Spark writes it, in MiB, which a number without a unit is in."""
    found = _SIZE.fullmatch(str(text).lower())
    if found is None:
        raise InputError(f"{text!r} is no size of memory", path=path)
    return int(int(found[1]) * _UNITS[found[2]])


# ---- KubeVirt ----------------------------------------------------------------------------------------------

_RUNNING = ("Always", "RerunOnFailure", "Once")
_LAUNCHER = 25 + 100 + 25 + 40 + 30 + 8
"""Memory of the processes beside a guest and of a thread for I/O, in MiB (KubeVirt v1.6,
GetMemoryOverhead)."""
_VIDEO, _VCPU, _ARM, _VFIO = 32, 8, 128, 1024
_CPU_RATIO = 10
"""Virtual CPUs for one CPU that a pod requests (cpuAllocationRatio)."""


def virtual_machine(obj: Values) -> Groups | None:
    """Return the pod of a VirtualMachine or VirtualMachineInstance: virt-launcher.

    It requests the memory of the guest with KubeVirt's overhead, a tenth of a CPU for each virtual one, and
    the devices of a node with KVM. Where an instance type has the size of the guest, it is not known: None.

    Parameters
    ----------
    obj : dict
    """
    is_instance = obj.get("kind") == "VirtualMachineInstance"
    spec = _map(obj, "spec")
    if not is_instance:
        runs = spec.get("running") or spec.get("runStrategy") in _RUNNING
        if "instancetype" in spec:
            return None
        template, path = _map(spec, "template"), "spec.template"
    else:
        runs, template, path = True, {"metadata": _map(obj, "metadata"), "spec": spec}, "spec"
    return iter([Group(f"virt-launcher-{_name(obj)}-", int(bool(runs)), _launcher(template, path), path)])


def _launcher(template: Values, path: str) -> Values:
    spec = _map(template, "spec")
    domain = _map(spec, "domain")
    requests, limits = dict(_map(domain, "resources", "requests")), dict(_map(domain, "resources", "limits"))
    guest = _map(domain, "memory").get("guest") or requests.get("memory") or limits.get("memory") or "0"
    cpu, devices = _map(domain, "cpu"), _map(domain, "devices")
    vcpus = 1
    for field in ("sockets", "cores", "threads"):
        vcpus *= _number(cpu.get(field), 1, f"{path}.spec.domain.cpu.{field}") or 1
    memory = parse_value(requests.get("memory") or guest)
    overhead = _launcher_overhead(parse_value(guest), vcpus, spec, devices)
    page = _map(domain, "memory", "hugepages").get("pageSize")
    if page:
        requests[f"hugepages-{page}"] = limits[f"hugepages-{page}"] = str(memory)
        memory = 0
    requests["memory"] = str(memory + overhead)
    if "memory" in limits:
        limits["memory"] = str(parse_value(limits["memory"]) + overhead)
    if cpu.get("dedicatedCpuPlacement"):
        requests["cpu"] = limits["cpu"] = str(vcpus + bool(cpu.get("isolateEmulatorThread")))
    elif "cpu" not in requests and "cpu" not in limits:
        requests["cpu"] = f"{1000 * vcpus // _CPU_RATIO}m"
    names = ["devices.kubevirt.io/kvm"]
    if devices.get("autoattachPodInterface", True) or devices.get("interfaces"):
        names += ["devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net"]
    for one in (*(devices.get("gpus") or ()), *(devices.get("hostDevices") or ())):
        names.append(str(_map(one).get("deviceName")))
    for name in names:
        limits[name] = str(names.count(name))
    made = _picked(spec, *_CHOSEN)
    made["nodeSelector"] = _map(spec, "nodeSelector") | {"kubevirt.io/schedulable": "true"}
    made["containers"] = [
        {"name": "compute", "image": "virt-launcher", "resources": {"requests": requests, "limits": limits}}
    ]
    claims = [_map(one, "persistentVolumeClaim").get("claimName") for one in spec.get("volumes") or ()]
    made["volumes"] = [
        {"name": f"disk{at}", "persistentVolumeClaim": {"claimName": claim}}
        for at, claim in enumerate(claims)
        if claim
    ]
    return {"metadata": _picked(_map(template, "metadata"), "labels", "annotations"), "spec": made}


def _launcher_overhead(guest: int, vcpus: int, spec: Values, devices: Values) -> int:
    """Return what a pod requests beside the memory of its guest, in bytes."""
    if _map(spec, "domain", "resources").get("overcommitGuestOverhead"):
        return 0
    mebibytes = _LAUNCHER + _VCPU * vcpus
    mebibytes += _VIDEO if devices.get("autoattachGraphicsDevice", True) else 0
    mebibytes += _ARM if spec.get("architecture") == "arm64" else 0
    mebibytes += _VFIO if devices.get("gpus") or devices.get("hostDevices") else 0
    return mebibytes * _MEBI + guest // 512  # of page tables


# ---- CloudNativePG -----------------------------------------------------------------------------------------


def postgres_instances(obj: Values) -> Groups:
    """Return the instances of a Cluster of CloudNativePG, with a claim for each of its volumes.

    By default they prefer to be on different nodes.

    Parameters
    ----------
    obj : dict
    """
    spec, name, annotations = _map(obj, "spec"), _name(obj), _map(obj, "metadata", "annotations")
    count = _number(spec.get("instances"), 1, "spec.instances")
    affinity = _map(spec, "affinity")
    made = _picked(spec, "topologySpreadConstraints", "priorityClassName", "schedulerName")
    made |= _picked(affinity, "nodeSelector", "tolerations")
    made["affinity"] = _postgres_affinity(affinity, name)
    image = spec.get("imageName") or "postgresql"
    made["containers"] = [{"name": "postgres", "image": image, "resources": _map(spec, "resources")}]
    storage = {"pgdata": _map(spec, "storage"), "pg-wal": _map(spec, "walStorage")}
    made["volumes"] = [
        _claimed(volume, one.get("size"), one.get("storageClass")) for volume, one in storage.items() if one
    ]
    labels = {"cnpg.io/cluster": name, "cnpg.io/podRole": "instance"}
    count = 0 if annotations.get("cnpg.io/hibernation") == "on" else count
    yield Group(f"{name}-{{index}}", count, {"metadata": {"labels": labels}, "spec": made}, "spec", 1)


def _postgres_affinity(affinity: Values, name: str) -> Values:
    anti = dict(_map(affinity, "additionalPodAntiAffinity"))
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
    return made | _picked(affinity, "nodeAffinity")


def _claimed(name: str, size: Any, storage_class: Any) -> Values:
    """Return a volume with a claim of its own, as an operator makes one for each pod."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size or "1Gi"}}}
    spec |= {"storageClassName": storage_class} if storage_class else {}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


# ---- Strimzi -----------------------------------------------------------------------------------------------


def kafka_nodes(obj: Values) -> Groups:
    """Return the nodes of a KafkaNodePool, with a claim for each of its persistent volumes.

    Parameters
    ----------
    obj : dict
    """
    spec, name = _map(obj, "spec"), _name(obj)
    cluster = str(_map(obj, "metadata", "labels").get("strimzi.io/cluster", ""))
    prefix = f"{cluster}-{name}" if cluster else name
    labels = {
        "strimzi.io/cluster": cluster,
        "strimzi.io/pool-name": name,
        "strimzi.io/name": f"{cluster}-kafka",
    }
    yield _kafka_group(spec, f"{prefix}-{{index}}", labels, "spec")


def kafka_pods(obj: Values) -> Groups:
    """Return the pods of a Kafka: brokers that are in no pool, ZooKeeper, and the other components.

    Parameters
    ----------
    obj : dict
    """
    spec, name = _map(obj, "spec"), _name(obj)
    for part in ("kafka", "zookeeper"):
        if _map(spec, part).get("replicas") and not _uses_pools(obj, part):
            labels = {"strimzi.io/cluster": name, "strimzi.io/name": f"{name}-{part}"}
            yield _kafka_group(_map(spec, part), f"{name}-{part}-{{index}}", labels, f"spec.{part}")
    for field, suffix in (("kafkaExporter", "kafka-exporter"), ("cruiseControl", "cruise-control")):
        if field in spec:
            one = _map(spec, field) | {"replicas": 1}
            yield _kafka_group(one, f"{name}-{suffix}-", {"strimzi.io/cluster": name}, f"spec.{field}")
    if operator := _map(spec, "entityOperator"):
        path, parts = "spec.entityOperator", ("topicOperator", "userOperator")
        containers = [
            {"name": part.lower(), "image": "strimzi", "resources": _map(operator, part, "resources")}
            for part in parts
            if part in operator
        ]
        group = _kafka_group(
            operator | {"replicas": int(bool(containers))}, f"{name}-entity-operator-", {}, path
        )
        group.template["spec"]["containers"] = containers
        yield group


def _uses_pools(obj: Values, part: str) -> bool:
    annotations = _map(obj, "metadata", "annotations")
    return part == "kafka" and annotations.get("strimzi.io/node-pools") == "enabled"


def kafka_clients(suffix: str) -> Any:
    """Return a function that makes the pods of a KafkaConnect and others of its kind.

    Parameters
    ----------
    suffix : str
        What follows the name of the object in the names of pods.

    Returns
    -------
    callable
    """

    def groups(obj: Values) -> Groups:
        spec, name = _map(obj, "spec"), _name(obj)
        yield _kafka_group(spec, f"{name}-{suffix}-{{index}}", {"strimzi.io/cluster": name}, "spec")

    return groups


def _kafka_group(spec: Values, name: str, labels: Values, path: str) -> Group:
    pod = _map(spec, "template", "pod")
    container = {"name": "kafka", "image": "strimzi", "resources": _map(spec, "resources")}
    storage = _map(spec, "storage")
    disks = storage.get("volumes") or () if storage.get("type") == "jbod" else (storage,)
    volumes = [
        _claimed(f"data-{at}", disk.get("size"), disk.get("class"))
        for at, disk in enumerate(disks)
        if isinstance(disk, dict) and disk.get("type") == "persistent-claim"
    ]
    made = _picked(pod, *_CHOSEN) | {"containers": [container], "volumes": volumes}
    metadata = {"labels": labels | _map(pod, "metadata", "labels")}
    count = _number(spec.get("replicas"), 1, f"{path}.replicas")
    return Group(name, count, {"metadata": metadata, "spec": made}, path)
