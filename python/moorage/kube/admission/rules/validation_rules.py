"""Kinds that are judged, rules of their metadata, and those between fields of kinds that make no pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...field_errors import Fault, Json, duplicate, forbidden, invalid, part, parts, required, unsupported
from ...releases import FeatureGates
from ..field_checks import (
    Rules,
    block_errors,
    format_causes,
    port_errors,
    wrong,
)
from ..pod_security import label_faults
from .pod_rules import labels_causes, pod_annotation_causes

KINDS = (
    *(
        f"v1/{kind}"
        for kind in ("Pod", "PodTemplate", "ReplicationController", "Service", "Namespace", "Node")
    ),
    *(f"v1/{kind}" for kind in ("PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange")),
    "v1/ServiceAccount",
    *(f"apps/v1/{kind}" for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
    *("batch/v1/Job", "batch/v1/CronJob", "policy/v1/PodDisruptionBudget"),
    *(
        "autoscaling/v2/HorizontalPodAutoscaler",
        "scheduling.k8s.io/v1/PriorityClass",
        "node.k8s.io/v1/RuntimeClass",
    ),
    *(f"storage.k8s.io/v1/{kind}" for kind in ("StorageClass", "CSIDriver", "CSINode", "VolumeAttachment")),
    *(
        f"resource.k8s.io/v1/{kind}"
        for kind in ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
    ),
)
"""The kinds and versions that are judged. Others are decoded alone."""

# ---- metadata ----------------------------------------------------------------------------------------------

_LABELS = ("Namespace", "Service", "StatefulSet")
_MAX_ANNOTATIONS = 256 * 1024
_STANDARD = ("kubernetes", "orphan", "foregroundDeletion", "metadata.kubernetes.io/x")
_NOT_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"


def metadata_causes(value: Json, kind: str, gates: FeatureGates) -> Iterator[Fault]:
    """Yield what is wrong with the metadata of an object."""
    meta = part(value, "metadata")
    yield from name_causes(meta, kind, gates)
    yield from labels_causes(meta, "metadata")
    annotations = part(meta, "annotations")
    if sum(len(str(key)) + len(str(text)) for key, text in annotations.items()) > _MAX_ANNOTATIONS:
        yield Fault("metadata.annotations", f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes")
    for at, finalizer in enumerate(meta.get("finalizers") or ()):
        yield from format_causes("qualifiedName", finalizer, "metadata.finalizers")
        if "/" not in str(finalizer) and finalizer not in _STANDARD and kind != "PodDisruptionBudget":
            yield Fault(f"metadata.finalizers[{at}]", invalid(finalizer, _NOT_STANDARD))
    yield from _owner_errors(parts(meta, "ownerReferences"))
    if kind == "Pod":
        yield from pod_annotation_causes(annotations, part(value, "spec"), "metadata.annotations", "spec")
    if kind == "Namespace":
        yield from _namespace_errors(value)


def name_causes(meta: Json, kind: str, gates: FeatureGates) -> Iterator[Fault]:
    """Yield what is wrong with the name of an object, or with the beginning of one that is made."""
    name, prefix = meta.get("name"), meta.get("generateName")
    if not name and not prefix and kind != "LimitRange":  # it gets one
        yield Fault("metadata.name", required("name or generateName is required"))
    of_name = "dns1123Label" if kind in _LABELS else "dns1123Subdomain"
    if kind == "Service" and not gates["RelaxedServiceNameValidation"]:
        of_name = "dns1035Label"
    if kind == "PodDisruptionBudget":
        yield from _segment_errors(str(prefix or ""), "metadata.generateName")
        yield from _segment_errors(str(name or prefix or ""), "metadata.name")
        prefix = name = None
    if prefix:
        yield from format_causes(f"{of_name}Prefix", prefix, "metadata.generateName")
    if name or prefix:
        yield from format_causes(of_name, name or f"{prefix}xxxxx", "metadata.name")


def _segment_errors(name: str, field: str) -> Iterator[Fault]:
    """What makes a name no part of a path; the names of some kinds have no other rule."""
    if name in (".", "..") and field == "metadata.name":
        yield Fault(field, invalid(name, f"may not be '{name}'"))
    for mark in ("/", "%"):
        if mark in name:
            yield Fault(field, invalid(name, f"may not contain '{mark}'"))


def _owner_errors(owners: list[Json]) -> Iterator[Fault]:
    field = "metadata.ownerReferences"
    for owner in owners:
        version = str(owner.get("apiVersion") or "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            yield Fault(f"{field}.apiVersion", invalid(version, "version must not be empty"))
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield Fault(f"{field}.{name}", invalid("", "must not be empty"))
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield Fault(field, invalid(owner, "/v1, Kind=Event is disallowed from being an owner"))
    controllers = [str(owner.get("name")) for owner in owners if owner.get("controller") is True]
    if len(controllers) > 1:
        why = 'Only one reference can have Controller set to true. Found "true" in references for '
        yield Fault(field, invalid(owners, why + " and ".join(controllers[:2])))


def _namespace_errors(value: Json) -> Iterator[Fault]:
    meta = part(value, "metadata")
    yield from format_causes("labelValue", meta.get("name"), "metadata.labels")  # the label of its name
    yield from label_faults(part(meta, "labels"))
    for finalizer in part(value, "spec").get("finalizers") or ():
        if "/" not in str(finalizer) and finalizer not in _STANDARD:
            yield Fault("spec.finalizers", invalid(finalizer, _NOT_STANDARD))


# ---- pods' workloads ---------------------------------------------------------------------------------------


def as_checked(value: Json, kind: str) -> Json:
    """Return an object as it is validated: the pods of a StatefulSet have its claims as volumes, the first
    ones."""
    claims = parts(part(value, "spec"), "volumeClaimTemplates")
    if kind != "StatefulSet" or not claims:
        return value
    names = [*dict.fromkeys(part(claim, "metadata").get("name") for claim in claims)]
    spec = part(value, "spec")
    template = part(spec, "template")
    pod = part(template, "spec")
    volumes: list[Any] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    volumes += [volume for volume in parts(pod, "volumes") if volume.get("name") not in names]
    template = template | {"spec": pod | {"volumes": volumes}}
    return value | {"spec": spec | {"template": template}}


# ---- services ----------------------------------------------------------------------------------------------

_KUBELET = 10250


_NOT_EXTERNAL = "may not be set for ExternalName services"


_NO_HEALTH_CHECK = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"


def _service_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    kind, ports = spec.get("type") or "ClusterIP", parts(spec, "ports")
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    is_headless = addresses[:1] == ["None"]
    if not ports and not is_headless and kind != "ExternalName":
        yield Fault(f"{path}.ports", required())
    if kind == "ExternalName":
        if addresses:
            yield Fault(f"{path}.clusterIPs", forbidden(_NOT_EXTERNAL))
        name = str(spec.get("externalName") or "").removesuffix(".")
        if name:
            yield from format_causes("dns1123Subdomain", name, f"{path}.externalName")
        else:
            yield Fault(f"{path}.externalName", required())
    if kind in ("NodePort", "LoadBalancer") and is_headless:
        why = f"may not be set to 'None' for {kind} services"
        yield Fault(f"{path}.clusterIPs[0]", invalid("None", why))
    if kind != "ExternalName":
        yield from _cluster_address_errors(addresses, path)
    yield from _service_port_errors(ports, kind, path)
    port, is_local = spec.get("healthCheckNodePort"), spec.get("externalTrafficPolicy") == "Local"
    if port and not (kind == "LoadBalancer" and is_local):
        yield Fault(f"{path}.healthCheckNodePort", invalid(port, _NO_HEALTH_CHECK))
    for at, address in enumerate(spec.get("externalIPs") or ()):
        texts = [*wrong("address", address, f"{path}.externalIPs[{at}]")]
        yield from texts or _special_address_errors(address, f"{path}.externalIPs[{at}]")
    yield from _balancer_errors(spec, kind, path)


def _cluster_address_errors(addresses: list[Any], path: str) -> Iterator[Fault]:
    if addresses[:1] == ["None"]:
        return
    for at, address in enumerate(addresses):
        yield from wrong("address", address, f"{path}.clusterIPs[{at}]")
    families = [":" in str(address) for address in addresses]
    if len(addresses) > 2:
        yield Fault(f"{path}.clusterIPs", invalid(addresses, "may only hold up to 2 values"))
    elif len(addresses) == 2 and families[0] == families[1]:
        why = "may specify no more than one IP for each IP family"
        yield Fault(f"{path}.clusterIPs", invalid(addresses, why))


def _special_address_errors(address: Any, field: str) -> Iterator[Fault]:
    from ipaddress import ip_address

    parsed = ip_address(str(address))
    for is_special, why in (
        (parsed.is_unspecified, f"may not be unspecified ({address})"),
        (parsed.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (parsed.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ):
        if is_special:
            yield Fault(field, invalid(address, why))


def _service_port_errors(ports: list[Json], kind: str, path: str) -> Iterator[Fault]:
    names: list[str] = []
    used: set[tuple[Any, Any]] = set()
    node_ports: set[tuple[Any, Any]] = set()
    for at, port in enumerate(ports):
        field, name, protocol = f"{path}.ports[{at}]", port.get("name") or "", port.get("protocol") or "TCP"
        if not name and len(ports) > 1:
            yield Fault(f"{field}.name", required())
        elif name:
            yield from format_causes("dns1123Label", name, f"{field}.name")
            if name in names:
                yield Fault(f"{field}.name", duplicate(name))
            names.append(name)
        number = port.get("port", 0)
        target = port.get("targetPort") or number
        if isinstance(number, int):
            yield from (Fault(f"{field}.port", text) for text in port_errors(number))
            yield from (Fault(f"{field}.targetPort", text) for text in port_errors(target))
        if kind == "LoadBalancer" and number == _KUBELET:
            yield Fault(
                field, invalid(number, "may not expose port 10250 externally since it is used by kubelet")
            )
        if (protocol, number) in used:
            shown = {
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": None,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield Fault(field, duplicate(shown))
        used.add((protocol, number))
        if (node_port := port.get("nodePort")) and kind == "ClusterIP":
            yield Fault(f"{field}.nodePort", forbidden("may not be used when `type` is 'ClusterIP'"))
        if node_port and (protocol, node_port) in node_ports:
            yield Fault(f"{field}.nodePort", duplicate(node_port))
        node_ports.add((protocol, node_port))


def _balancer_errors(spec: Json, kind: str, path: str) -> Iterator[Fault]:
    """What only services that are reached from outside may have."""
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        why = "may only be used when `type` is 'LoadBalancer'"
        yield Fault(f"{path}.LoadBalancerSourceRanges", forbidden(why))
    for at, block in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        if isinstance(block, str):
            texts = block_errors(block.strip())
            yield from (Fault(f"{path}.LoadBalancerSourceRanges[{at}]", text) for text in texts)
    policy, field = spec.get("externalTrafficPolicy"), f"{path}.externalTrafficPolicy"
    if (
        policy
        and kind not in ("LoadBalancer", "NodePort")
        and not (kind == "ClusterIP" and spec.get("externalIPs"))
    ):
        yield Fault(field, invalid(policy, "may only be set for externally-accessible services"))
    elif policy and policy not in ("Cluster", "Local"):
        yield Fault(field, unsupported(policy, ("Cluster", "Local")))
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    if len(families) == 2 and policy in (None, "", "SingleStack"):
        why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
        yield Fault(f"{path}.ipFamilyPolicy", invalid("SingleStack", why))


# ---- volumes and claims ------------------------------------------------------------------------------------

_NO_SOURCES = {
    *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
    *("storageClassName", "volumeAttributesClassName", "volumeMode"),
}
_POSITIVE = "must be greater than zero"
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_WITH_OPTIONS = {
    *("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder"),
    *("cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk", "storageos"),
}


def _volume_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    if root.get("kind") != "PersistentVolume":
        yield from _inline_errors(spec, path, root)
        return
    capacity = part(spec, "capacity")
    if not capacity:
        yield Fault(f"{path}.capacity", required())
    if [*capacity] != ["storage"]:
        yield Fault(f"{path}.capacity", unsupported(spec.get("capacity"), ("storage",)))
    yield from wrong("positive", capacity.get("storage"), f"{path}.capacity[storage]", _POSITIVE)
    sources = [name for name, value in spec.items() if name not in _NO_SOURCES and value is not None]
    if not sources:
        yield Fault(path, required("must specify a volume type"))
    sources.sort(key=_source_turn)
    for name in sources[1:]:
        yield Fault(f"{path}.{name}", forbidden("may not specify more than 1 volume type"))
    host = part(spec, "hostPath")
    if host.get("path") == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield Fault(f"{path}.persistentVolumeReclaimPolicy", forbidden(why))
    if sources[:1] == ["local"] and spec.get("nodeAffinity") is None:
        yield Fault(f"{path}.nodeAffinity", required("Local volume requires node affinity"))
    given = spec.get("volumeAttributesClassName")
    if given == "":
        yield Fault(f"{path}.volumeAttributesClassName", required("an empty string is disallowed"))
    if given is not None and spec.get("csi") is None:
        yield Fault(f"{path}.csi", required("has to be specified when using volumeAttributesClassName"))
    annotations = part(part(root, "metadata"), "annotations")
    if _MOUNT_OPTIONS in annotations and not {*sources} & _WITH_OPTIONS:
        why = "may not specify mount options for this volume type"
        yield Fault(f"metadata.annotations.{_MOUNT_OPTIONS}", forbidden(why))


_TURNS = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd"),
    *("quobyte", "cephfs", "iscsi", "cinder", "fc", "azureFile", "flexVolume", "vsphereVolume"),
    *("photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)


def _source_turn(name: str) -> int:
    return _TURNS.index(name) if name in _TURNS else len(_TURNS)


def _inline_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    if part(part(root, "spec"), "source").get("persistentVolumeName") is not None:
        return  # one of them is too many
    for name in ("capacity", "claimRef", "persistentVolumeReclaimPolicy", "volumeAttributesClassName"):
        if spec.get(name):
            yield Fault(f"{path}.{name}", forbidden("may not be specified in the context of inline volumes"))
    if spec.get("csi") is None:
        yield Fault(f"{path}.csi", required())


_DATA = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _claim_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    amount = part(part(spec, "resources"), "requests").get("storage")
    if amount is None:
        yield Fault(f"{path}.resources[storage]", required())
    yield from wrong("positive", amount, f"{path}.resources[storage]", _POSITIVE)
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if not (isinstance(source, dict) and (source.get("apiGroup") or "", source.get("kind")) in _DATA):
        source = None  # it is dropped
    if part(spec, "dataSourceRef").get("namespace"):
        ref = None
    elif ref is None:
        ref = source  # the API server copies it
    for name, given in (("dataSource", source), ("dataSourceRef", ref)):
        if not isinstance(given, dict):
            continue
        if not given.get("name"):
            yield Fault(f"{path}.{name}.name", required())
        if not given.get("kind"):
            yield Fault(f"{path}.{name}.kind", required())
        elif not given.get("apiGroup") and given["kind"] != "PersistentVolumeClaim":
            why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            yield Fault(f"{path}.{name}", invalid(given["kind"], why))
        if given.get("apiGroup"):
            yield from format_causes("dns1123Subdomain", given["apiGroup"], f"{path}.{name}.apiGroup")
    if isinstance(source, dict) and isinstance(ref, dict):
        fields = ("apiGroup", "kind", "name")
        if [source.get(name) or "" for name in fields] != [ref.get(name) or "" for name in fields]:
            yield Fault(path, invalid({}, "must match dataSourceRef"))


def _template_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """What the template of a claim sets of its metadata."""
    meta = part(value, "metadata")
    for name in meta:
        if name not in ("labels", "annotations") and meta[name]:
            yield Fault(f"{path}.metadata.{name}", forbidden("cannot be set"))


def _claim_template_errors(value: Json, path: str, root: Json) -> Iterator[Fault]:
    yield from _template_errors(value, path, root)
    yield from labels_causes(part(value, "metadata"), f"{path}.metadata")


# ---- autoscalers -------------------------------------------------------------------------------------------

_SOURCES = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}


_JUDGED = ("object", "external", "pods", "resource", "containerResource")
"""Sources in the order in which the first that is there is looked at."""


def _scaler_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    ref, field = part(spec, "scaleTargetRef"), f"{path}.scaleTargetRef"
    version = str(ref.get("apiVersion") or "")
    if version.count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
        yield Fault(f"{field}.apiVersion", invalid(version, why))
    elif not version.partition("/")[1] and ref.get("kind") != "ReplicationController":
        yield Fault(f"{field}.apiVersion", invalid(version, "apiVersion must specify API group"))
    share = spec.get("targetCPUUtilizationPercentage")  # of autoscaling/v1, in which it is the first metric
    if isinstance(share, int) and share < 1:
        field = f"{path}.metrics[0].resource.target.averageUtilization"
        yield Fault(field, invalid(share, "must be greater than 0"))
    for at, metric in enumerate(parts(spec, "metrics")):
        yield from _metric_errors(metric, f"{path}.metrics[{at}]")
    for which in ("scaleUp", "scaleDown"):
        rules = part(spec, "behavior").get(which)
        if isinstance(rules, dict) and rules.get("policies") == []:
            why = "must specify at least one Policy"
            yield Fault(f"{path}.behavior.{which}.policies", required(why))


def _metric_errors(metric: Json, path: str) -> Iterator[Fault]:
    given = [name for name in _JUDGED if metric.get(name) is not None]
    own = _SOURCES.get(metric.get("type") or "", "")
    if own and own not in given:
        yield Fault(f"{path}.{own}", required("must populate information for the given metric source"))
    for name in given:
        if len(given) > 1 and name != own:
            yield Fault(f"{path}.{name}", forbidden("must populate the given metric source only"))
    for name in given[:1]:
        yield from _source_errors(part(metric, name), name, f"{path}.{name}")


_TARGETS = ("Utilization", "Value", "AverageValue")


def _source_errors(source: Json, name: str, path: str) -> Iterator[Fault]:
    target, at = part(source, "target"), f"{path}.target"
    if target.get("type") not in _TARGETS:
        why = "must be either Utilization, Value, or AverageValue"
        yield Fault(f"{at}.type", invalid(target.get("type") or "", why))
    utilization = target.get("averageUtilization")
    value, average = target.get("value"), target.get("averageValue")
    if name in ("resource", "containerResource"):
        if utilization is None and average is None:
            why = "must set either a target raw value or a target utilization"
            yield Fault(f"{at}.averageUtilization", required(why))
        if utilization is not None and average is not None:
            why = "may not set both a target raw value and a target utilization"
            yield Fault(f"{at}.averageValue", forbidden(why))
    if name == "pods" and average is None:
        yield Fault(f"{at}.averageValue", required("must specify a positive target averageValue"))
    if name in ("object", "external"):
        if value is None and average is None:
            why = "must set either a target value for metric or a per-pod target"
            yield Fault(f"{at}.averageValue", required(why))
        if value is not None and average is not None and name == "external":
            why = "may not set both a target value for metric and a per-pod target"
            yield Fault(f"{at}.value", forbidden(why))


# ---- storage -----------------------------------------------------------------------------------------------


def _class_errors(value: Json, _path: str, _root: Json) -> Iterator[Fault]:
    name = value.get("provisioner")
    if isinstance(name, str) and name:
        yield from format_causes("qualifiedName", name.lower(), "provisioner")
    if "" in part(value, "parameters"):
        yield Fault("parameters", invalid("", "field can not be empty."))
    terms: list[Any] = []
    for at, topology in enumerate(parts(value, "allowedTopologies")):
        rules = {
            rule.get("key"): {*(rule.get("values") or ())}
            for rule in parts(topology, "matchLabelExpressions")
        }
        if rules in terms or not rules:
            yield Fault(f"allowedTopologies[{at}].matchLabelExpressions", duplicate(""))
        terms.append(rules)


def _driver_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    audiences = [request.get("audience") or "" for request in parts(spec, "tokenRequests")]
    for at, audience in enumerate(audiences):
        if audience in audiences[:at]:
            yield Fault(f"{path}.tokenRequests[{at}].audience", duplicate(audience))


def _csi_node_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    for at, driver in enumerate(parts(spec, "drivers")):
        field, keys = f"{path}.drivers[{at}]", driver.get("topologyKeys") or []
        for index, key in enumerate(keys):
            if not key:
                yield Fault(field, required())
            yield from format_causes("qualifiedName", key, field)
            if key and key in keys[:index]:
                yield Fault(field, duplicate(key))


def _attachment_errors(value: Json, _path: str, _root: Json) -> Iterator[Fault]:
    spec = part(value, "spec")
    if value.get("spec") is None:
        yield Fault("spec.attacher", required())
    source = part(spec, "source")
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if name is None and inline is None:
        yield Fault("spec.source", required(why))
    if name is not None and inline is not None:
        yield Fault("spec.source", forbidden(why))
    if name is not None and inline is None:
        if name == "":
            yield Fault(
                "spec.source.persistentVolumeName", required("must specify non empty persistentVolumeName")
            )
        yield from format_causes("dns1123Subdomain", name, "spec.source.persistentVolumeName")


# ---- nodes and classes -------------------------------------------------------------------------------------

_AVOID = "scheduler.alpha.kubernetes.io/preferAvoidPods"


def _node_errors(value: Json, _path: str, _root: Json) -> Iterator[Fault]:
    spec = part(value, "spec")
    seen: list[tuple[Any, Any]] = []
    for at, taint in enumerate(parts(spec, "taints")):
        key = taint.get("key"), taint.get("effect")
        if key in seen:
            shown = {"Key": key[0], "Value": taint.get("value") or "", "Effect": key[1], "TimeAdded": None}
            why = "taints must be unique by key and effect pair"
            yield Fault(f"metadata.taints[{at}]", f"{duplicate(shown)}: {why}")
        seen.append(key)
    blocks, first = spec.get("podCIDRs") or [], spec.get("podCIDR")
    if first and blocks[:1] != [first]:
        blocks = [first]
    for at, block in enumerate(blocks):
        yield from (Fault(f"spec.podCIDRs[{at}]", text) for text in block_errors(block))
    if len({":" in str(block) for block in blocks}) < len(blocks):
        why = "may specify no more than one CIDR for each IP family"
        yield Fault("spec.podCIDRs", invalid(blocks, why))
    text = part(part(value, "metadata"), "annotations").get(_AVOID)
    if text:
        try:
            json.loads(str(text))
        except ValueError:
            why = f"invalid character '{str(text)[:1]}' looking for beginning of value"
            yield Fault("metadata.annotations.AvoidPods", invalid(_AVOID, why))


def _overhead_errors(value: Json, _path: str, _root: Json) -> Iterator[Fault]:
    from ..validate_object import resource_faults  # few manifests are RuntimeClasses

    fixed = part(part(value, "overhead"), "podFixed")
    return resource_faults({"limits": fixed}, "overhead", is_pod=False)


RULES: Rules = {
    "core.v1.ServiceSpec": (_service_errors,),
    "core.v1.PersistentVolumeSpec": (_volume_errors,),
    "core.v1.PersistentVolumeClaimSpec": (_claim_errors,),
    "core.v1.PersistentVolumeClaimTemplate": (_template_errors,),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (_scaler_errors,),
    "storage.v1.StorageClass": (_class_errors,),
    "storage.v1.CSIDriverSpec": (_driver_errors,),
    "storage.v1.CSINodeSpec": (_csi_node_errors,),
    "storage.v1.VolumeAttachment": (_attachment_errors,),
    "core.v1.Node": (_node_errors,),
    "node.v1.RuntimeClass": (_overhead_errors,),
    "resource.v1.ResourceClaimTemplateSpec": (_claim_template_errors,),
}
"""By struct, the rules between its fields."""
