"""The pods of KubeVirt's virtual machines: virt-launcher."""

from __future__ import annotations

from .kind_values import (
    CHOSEN,
    Find,
    Group,
    Groups,
    Values,
    map_of,
    maps_of,
    name_of,
    number_of,
    picked,
    size_of,
)

_MEBI = 1 << 20
_TYPE, _CLUSTER_TYPE = "VirtualMachineInstancetype", "VirtualMachineClusterInstancetype"
_RUNNING = ("Always", "RerunOnFailure", "Once")
_LAUNCHER = 25 + 100 + 25 + 40 + 30 + 8
"""Memory of the processes beside a guest and of a thread for I/O, in MiB (KubeVirt v1.6,
GetMemoryOverhead)."""
_VIDEO, _VCPU, _ARM, _VFIO = 32, 8, 128, 1024
_CPU_RATIO = 10
"""Virtual CPUs for one CPU that a pod requests (cpuAllocationRatio)."""


def with_instance_type(obj: Values, find: Find) -> Values | str:
    """Return a VirtualMachine with what its instance type gives the guest (KubeVirt v1.6).

    Returns
    -------
    dict or str
        Why its pod does not follow, if the instance type is not listed.
    """
    chosen, name = map_of(obj, "spec", "instancetype"), map_of(obj, "spec", "instancetype").get("name")
    if not (chosen and _runs(obj)):
        return obj
    kind = str(chosen.get("kind") or _CLUSTER_TYPE)
    kind = {one.lower(): one for one in (_TYPE, _CLUSTER_TYPE)}.get(kind.lower(), kind)
    namespace = "" if kind == _CLUSTER_TYPE else str(map_of(obj, "metadata").get("namespace", ""))
    found = find(f"{kind}.instancetype.kubevirt.io", namespace, str(name)) if name else None
    if found is None:
        return f"whose {kind} {name or 'of a volume'} is not in the input"
    given, spec = map_of(found, "spec"), map_of(obj, "spec", "template", "spec")
    domain = _with_size(map_of(spec, "domain"), given)
    selector = map_of(given, "nodeSelector") | map_of(spec, "nodeSelector")
    spec = spec | picked(given, "schedulerName") | {"domain": domain, "nodeSelector": selector}
    template = map_of(obj, "spec", "template") | {"spec": spec}
    return obj | {"spec": map_of(obj, "spec") | {"template": template}}


def _runs(obj: Values) -> bool:
    """Whether a VirtualMachine is to run."""
    spec = map_of(obj, "spec")
    return bool(spec.get("running") or spec.get("runStrategy") in _RUNNING)


def _with_size(domain: Values, given: Values) -> Values:
    """Return the domain of a virtual machine with the size and the devices of an instance type."""
    cpu, memory = map_of(given, "cpu"), map_of(given, "memory")
    cpu = {
        "sockets": cpu.get("guest"),
        "dedicatedCpuPlacement": cpu.get("dedicatedCPUPlacement"),
        "isolateEmulatorThread": cpu.get("isolateEmulatorThread"),
    }
    devices = map_of(domain, "devices")
    own = {field: maps_of(given.get(field)) for field in ("gpus", "hostDevices")}
    devices = devices | {field: [*maps_of(devices.get(field)), *own[field]] for field in own}
    made = domain | {"cpu": cpu, "devices": devices, "memory": picked(memory, "guest", "hugepages")}
    if percent := memory.get("overcommitPercent"):
        guest = size_of(memory.get("guest"), "spec.instancetype")
        requests = map_of(domain, "resources", "requests") | {"memory": str(guest * (100 - percent) // 100)}
        made["resources"] = map_of(domain, "resources") | {"requests": requests}
    return made


def virtual_machine(obj: Values) -> Groups:
    """Return the pods of a VirtualMachine, a VirtualMachineInstance, or a set of one of them: virt-launcher.

    Each requests the memory of the guest with KubeVirt's overhead, a tenth of a CPU for each virtual one, and
    the devices of a node with KVM.
    """
    kind, spec, count = obj.get("kind"), map_of(obj, "spec"), 1
    template, path = map_of(spec, "template"), "spec.template"
    if kind == "VirtualMachineInstance":
        template, path = {"metadata": map_of(obj, "metadata"), "spec": spec}, ""
    elif kind == "VirtualMachineInstanceReplicaSet":
        count = number_of(spec.get("replicas"), 1, "spec.replicas")
    elif not _runs(obj):
        count = 0
    yield Group(f"virt-launcher-{name_of(obj)}-", count, _launcher(template, path), path)


def _launcher(template: Values, path: str) -> Values:
    spec = map_of(template, "spec")
    domain = map_of(spec, "domain")
    requests, limits = (
        dict(map_of(domain, "resources", "requests")),
        dict(map_of(domain, "resources", "limits")),
    )
    at = f"{path}.spec.domain".lstrip(".")
    sizes, page = map_of(domain, "memory"), map_of(domain, "memory", "hugepages").get("pageSize")
    # As setDefaultResourceRequests and setGuestMemory choose.
    asked = (
        (requests.get("memory"), "resources.requests.memory"),
        (limits.get("memory"), "resources.limits.memory"),
        (sizes.get("guest"), "memory.guest"),
        (page, "memory.hugepages.pageSize"),
    )
    memory = next((size_of(value, f"{at}.{field}") for value, field in asked if value), 0)
    guest = size_of(sizes.get("guest") or memory, f"{at}.memory.guest")
    cpu, devices = map_of(domain, "cpu"), map_of(domain, "devices")
    vcpus = 1
    for field in ("sockets", "cores", "threads"):
        vcpus *= number_of(cpu.get(field), 1, f"{at}.cpu.{field}") or 1
    overhead = _launcher_overhead(memory, vcpus, spec, devices)
    paged = 0
    if page:
        paged = guest
        requests[f"hugepages-{page}"] = limits[f"hugepages-{page}"] = str(min(memory, paged))
    # Beside huge pages the overhead counts in any case (WithHugePages).
    overcommits = map_of(domain, "resources").get("overcommitGuestOverhead") and not page
    requests["memory"] = str(max(memory - paged, 0) + (0 if overcommits else overhead))
    if "memory" in limits:
        limit = size_of(limits["memory"], f"{at}.resources.limits.memory")
        limits["memory"] = str(max(limit - paged, 0) + overhead)
    if cpu.get("dedicatedCpuPlacement"):
        requests["cpu"] = limits["cpu"] = str(vcpus + bool(cpu.get("isolateEmulatorThread")))
    elif "cpu" not in requests and "cpu" not in limits:
        requests["cpu"] = f"{1000 * vcpus // _CPU_RATIO}m"
    names = ["devices.kubevirt.io/kvm"]
    if devices.get("autoattachPodInterface", True) or devices.get("interfaces"):
        names += ["devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net"]
    for one in (*(devices.get("gpus") or ()), *(devices.get("hostDevices") or ())):
        names.append(str(map_of(one).get("deviceName")))
    for name in names:
        limits[name] = str(names.count(name))
    made = picked(spec, *CHOSEN)
    made["nodeSelector"] = map_of(spec, "nodeSelector") | {"kubevirt.io/schedulable": "true"}
    made["containers"] = [
        {"name": "compute", "image": "virt-launcher", "resources": {"requests": requests, "limits": limits}}
    ]
    claims = [map_of(one, "persistentVolumeClaim").get("claimName") for one in spec.get("volumes") or ()]
    made["volumes"] = [
        {"name": f"disk{at}", "persistentVolumeClaim": {"claimName": claim}}
        for at, claim in enumerate(claims)
        if claim
    ]
    return {"metadata": picked(map_of(template, "metadata"), "labels", "annotations"), "spec": made}


def _launcher_overhead(memory: int, vcpus: int, spec: Values, devices: Values) -> int:
    """Return what a pod requests beside the requested memory of its virtual machine, in bytes."""
    mebibytes = _LAUNCHER + _VCPU * vcpus
    mebibytes += _VIDEO if devices.get("autoattachGraphicsDevice", True) else 0
    mebibytes += _ARM if spec.get("architecture") == "arm64" else 0
    mebibytes += _VFIO if devices.get("gpus") or devices.get("hostDevices") else 0
    return mebibytes * _MEBI + memory // 512  # of page tables
