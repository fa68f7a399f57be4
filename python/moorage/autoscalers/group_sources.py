"""Where node groups are known from: a file, and what objects say of their cluster-autoscaler: the
flags of its Deployment, the priorities of its expander, and the sizes of groups (docs/autoscaling.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct, structs

from moorage.errors import InputError, examples, located
from moorage.kube import Node, Object, Quantity
from moorage.kube.model.autoscaling import (
    CAPACITY,
    MACHINE_CAPACITY,
    PRIORITIES,
    STATUS,
    AutoscalerFlags,
    ConfigMap,
    MachineGroup,
)
from moorage.kube.model.meta import ObjectMeta
from moorage.kube.model.node import group_names
from moorage.kube.read.documents import read_first
from moorage.kube.read.files import source_name
from moorage.lazy import NamedTuple

from .cluster_autoscaler.flags import EXPANDERS, Flags
from .group_settings import (
    LABEL_VALUE,
    LONGEST_NAME,
    OTHER_FLAGS,
    GroupSettings,
    NodeGroup,
    ScaleDown,
    read_document,
    sized_groups,
)

_ALIASES = {
    "max-nodes-per-scaleup": "max-nodes-per-scale-up",
    "ignore-daemonsets-utilization": "ignore-daemon-sets-utilization",
    "balancing-ignore-label": "balancing-ignore-labels",
    "balancing-label": "balancing-labels",
    "startup-taint": "startup-taints",
    "status-taint": "status-taints",
    "fastpath-binpacking-enabled": "fastpath-binpacking",
    "blocking-system-pod-distruption-timeout": "blocking-system-pod-disruption-timeout",
    "max-empty-bulk-delete": "max-scale-down-parallelism",
}
"""Flags whose fields have another name."""
_TOTALS = {"cores-total": ("minCores", "maxCores", 1), "memory-total": ("minMemory", "maxMemory", 1 << 30)}
_WITHOUT_DECISION = re.compile(
    "v|vmodule|logtostderr|alsologtostderr|stderrthreshold|log.*|kube.*|namespace|leader-elect.*|address"
    "|cluster-name|cloud-config|.*status-config-?map.*|scan-interval|.*graceful-termination.*|user-agent"
    "|max-node-provision-time|aws-use-static-instance-list|.*metrics.*|profiling|debugging-.*"
    "|max-inactivity|max-failing-time|record-duplicated-events|regional|node-group-auto-discovery|one-output"
)
"""Flags by which nothing is decided here."""
_SIZE = re.compile(r"(\d+):(\d+):(.+)")
_DISCOVERED = re.compile(r"mig:namePrefix=([^,]+),min=(\d+),max=(\d+)")
_ZONE = re.compile(r"/zones/([^/]+)/")
"""The zone of an instance group, in its address."""
_KUBE_PROXY = Quantity("100m")
"""What cluster-autoscaler takes kube-proxy to request of a node that is not there yet."""
_OLD_STATUS = re.compile(r"^ *Name: +(\S+)\n *Health: .*\(minSize=(\d+), maxSize=(\d+)\)", re.M)


class AutoscalerObjects(Struct):
    """What objects say of a cluster-autoscaler.

    Attributes
    ----------
    source : str
        The object that has the flags, or the sizes; "" for none.
    document : dict
        Fields of `GroupSettings`.
    unknown : list of str
        Flags that moorage does not have.
    lacking : list of str
        What sets of machines without a node do not say of theirs.
    """

    source: str = ""
    document: dict[str, Any] = msgspec.field(default_factory=dict)
    unknown: list[str] = msgspec.field(default_factory=list)
    lacking: list[str] = msgspec.field(default_factory=list)


class KnownGroups(NamedTuple):
    """Node groups, where they come from, and what is to be said of that."""

    settings: GroupSettings
    source: str
    notes: tuple[str, ...] = ()


def known_groups(
    file: str, sizes: str, nodes: Sequence[Node], objects: Iterable[Object]
) -> KnownGroups | None:
    """Return the node groups of a file, of sizes (as for `sized_groups`) and of objects; None for none. The
    file wins over the objects.

    Raises
    ------
    InputError
        Names the file or object, the group and the field.
    """
    known = autoscaler_objects(objects, nodes)
    own = read_document(file) if file else {}
    document, differing = _merged(known.document, own)
    if not (file or sizes or document.get("nodeGroups")):
        return None
    notes = list[str]()
    if differing:
        notes.append(f"{source_name(file)} wins over {known.source}: {', '.join(differing)}.")
    if known.unknown:
        flags = examples([f"--{name}" for name in known.unknown], 5)
        notes.append(f"Flags of {known.source} that moorage does not have: {flags}.")
    notes += known.lacking
    if "priority" in known.document.get("expander", ()) and not (
        document.get("priorities") or "expander" in own
    ):
        document["expander"] = [each for each in document["expander"] if each != "priority"] or ["random"]
        notes.append(f"The expander priority leaves all groups, as the input has no ConfigMap {PRIORITIES}.")
    with located(source=source_name(file) if file else known.source or "--group-sizes"):
        settings = sized_groups(document, sizes, nodes)
    if zonal := [
        node_group
        for node_group in settings.node_groups
        if node_group.zone and node_group.name == f"{_pool(node_group)}-{node_group.zone}"
    ]:
        pools = examples(sorted({_pool(each) for each in zonal}), 3)
        notes.append(f"On GKE a node pool is a group in each zone, with the sizes given: {pools}.")
    given = source_name(file).rpartition("/")[2] if file else "--group-sizes" if sizes else ""
    parts = [
        f"groups of {given or known.source}",
        *[f"flags of {known.source}"] * bool(given and known.source),
    ]
    return KnownGroups(settings, ", ".join(parts), tuple(notes))


def autoscaler_objects(objects: Iterable[Object], nodes: Iterable[Node]) -> AutoscalerObjects:
    """Read the flags of cluster-autoscaler's Deployment, and the ConfigMaps that it reads and writes.

    Raises
    ------
    InputError
        Names the object and the flag.
    """
    known, maps, sizes = AutoscalerObjects(), dict[str, ConfigMap](), list[tuple[str, int, int]]()
    machines = list[MachineGroup]()
    for each in objects:
        if isinstance(each, ConfigMap):
            maps[each.name] = each
        elif isinstance(each, MachineGroup):
            machines.append(each)
        elif isinstance(each, AutoscalerFlags) and not known.source:
            known.source = f"deployment {each.key}"
            with located(source=known.source):
                sizes = _read_flags(known, each.words)
    if PRIORITIES in maps and "priority" in known.document.get("expander", ()):
        with located(source=f"configmap {maps[PRIORITIES].key}", path="data.priorities"):
            known.document["priorities"] = _read_yaml(maps[PRIORITIES].data.get("priorities", ""))
    if STATUS in maps:
        known.source = known.source or f"configmap {maps[STATUS].key}"
        sizes = [*_sizes_of_status(maps[STATUS].data.get("status", ""))] or sizes
    machines = _with_autoscalers(machines)
    if machines and not sizes:
        known.source = known.source or examples([each.source for each in machines], 3)
        sizes = [(each.name, each.min_size, each.max_size) for each in machines]
    templates, names = dict[str, Any](), group_names(nodes)
    for each in machines:
        lacking = [f"{CAPACITY}{name}" for name in ("cpu", "memory") if name not in each.capacity]
        if not lacking:
            templates[each.name] = _machine_template(each)
        elif each.name not in names:
            known.lacking.append(f"Machine set {each.key} has no annotation {' and '.join(lacking)}.")
    if groups := _groups(sizes, names, templates):
        known.document["nodeGroups"] = groups
    return known


def _read_flags(known: AutoscalerObjects, words: Sequence[str]) -> list[tuple[str, int, int]]:
    """Note what flags set, and return the sizes that they give."""
    document, sizes = known.document, list[tuple[str, int, int]]()
    flags, down = document.setdefault("flags", {}), document.setdefault("scaleDown", {})
    for name, value in _flags(words):
        if name == "nodes" and (size := _SIZE.fullmatch(value)):
            sizes.append((size[3], int(size[1]), int(size[2])))
        elif name == "node-group-auto-discovery" and (size := _DISCOVERED.fullmatch(value)):
            sizes.append((size[1], int(size[2]), int(size[3])))
        elif name == "expander":
            document["expander"] = [each for each in value.split(",") if each in EXPANDERS]
            known.unknown += [f"{name}={each}" for each in value.split(",") if each not in EXPANDERS]
        elif name == "expendable-pods-priority-cutoff":
            document["expendablePodsPriorityCutoff"] = _value(name, value, int)
        elif name == "scale-down-enabled":
            document["scaleDown"] = down if _value(name, value, bool) else None
        elif name in _TOTALS:
            *keys, unit = _TOTALS[name]
            for key, text in zip(keys, value.split(":"), strict=False):
                flags[key] = _value(name, text, int) * unit
        else:
            _set(known, name, value, down)
    return sizes


def _set(known: AutoscalerObjects, name: str, value: str, down: dict[str, Any]) -> None:
    """Set the field of a flag, or note that there is none."""
    field_name = _ALIASES.get(name, name).replace("-", "_")
    own = field_name.removeprefix("scale_down_")
    camel = dict(zip(ScaleDown.__struct_fields__, ScaleDown.__struct_encode_fields__, strict=True))
    key = re.sub("_([a-z])", lambda match: match[1].upper(), field_name)
    kinds = get_type_hints(Flags)
    if (of_down := next((each for each in (field_name, own) if each in camel), "")) and field_name in kinds:
        down[camel[of_down]] = _value(name, value, kinds[field_name])
    elif key in OTHER_FLAGS:
        flags, kind = known.document["flags"], kinds[field_name]
        read = _value(name, value, kind)
        flags[key] = [*flags.get(key, ()), read] if kind == tuple[str, ...] else read
    elif not _WITHOUT_DECISION.fullmatch(name):
        known.unknown.append(name)


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield flags and their values, which are "true" for a flag alone."""
    for word, after in zip(words, [*words[1:], "-"], strict=True):
        if word.startswith("-") and (name := word.lstrip("-")):
            name, equals, value = name.partition("=")
            is_alone = after.startswith("-") or not after
            yield name, value.strip("\"'") if equals else "true" if is_alone else after


def _value(name: str, text: str, kind: object) -> Any:
    """The value of a flag; durations stay texts."""
    if kind == tuple[str, ...] or kind is str:
        return text
    if kind is float and re.search("[a-z]", text):
        return text
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f'{error}: "{text[:80]}"', path=f"--{name}") from None


def _read_yaml(text: str) -> Any:
    return read_first(text, "")[0]


def _sizes_of_status(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the groups of cluster-autoscaler's status, with their least and greatest sizes."""
    if old := _OLD_STATUS.findall(text):
        yield from ((name, int(least), int(most)) for name, least, most in old)
        return
    document = _read_yaml(text) if "nodeGroups:" in text else None
    for each in document.get("nodeGroups") or () if isinstance(document, dict) else ():
        health = each.get("health") or {}
        if isinstance(health.get("maxSize"), int):
            yield str(each.get("name", "")), int(health.get("minSize") or 0), health["maxSize"]


def _groups(
    sizes: Iterable[tuple[str, int, int]], labels: Mapping[str, str], templates: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Groups by what their nodes are known by. On GKE that is a pool, and the zone in the group's address;
    where an address has no zone, the instance groups of one pool together are a group."""
    groups = dict[tuple[str, str], dict[str, Any]]()
    for path, least, most in sizes:
        name, own, zone = path.rpartition("/")[2], _known_as(path, labels), _ZONE.search(path)
        key = (own, zone[1] if zone else "")
        if key in groups:
            old = groups[key]
            groups[key] = {"name": own, "minSize": old["minSize"] + least, "maxSize": old["maxSize"] + most}
        elif len(name) <= LONGEST_NAME and LABEL_VALUE.fullmatch(name):
            label = {"label": f"{labels[own]}={own}"} if own in labels and own != name else {}
            of_zone = {"zone": zone[1]} if zone and label else {}
            template = {"template": templates[name]} if name in templates else {}
            groups[key] = {"name": name, "minSize": least, "maxSize": most} | label | of_zone | template
    return [*groups.values()]


def _with_autoscalers(machines: Iterable[MachineGroup]) -> list[MachineGroup]:
    """Return the sets of machines with sizes. OpenShift's operator gives a set those of the MachineAutoscaler
    that names it, and copies its own annotations to those of cluster-autoscaler that are missing."""
    groups = {(each.namespace, each.name): each for each in machines if not each.target}
    for each in machines:
        if each.target:
            key = each.namespace, each.target
            if key in groups and groups[key].target:
                about = f"{groups[key].source} names {each.target} already: a set has the sizes of one"
                raise InputError(about, source=each.source, path="spec.scaleTargetRef.name")
            says = dict(groups[key].capacity) if key in groups else {}
            copied = {name: says[own] for own, name in MACHINE_CAPACITY.items() if own in says}
            if "memory" in copied:
                copied["memory"] += "Mi"
            if copied.get("gpu-count", "0") != "0":
                copied["gpu-type"] = "nvidia.com/gpu"
            meta = ObjectMeta(name=each.target, namespace=each.namespace)
            groups[key] = structs.replace(each, metadata=meta, capacity=copied | says)
    return [each for each in groups.values() if each.max_size]


def _machine_template(machines: MachineGroup) -> dict[str, Any]:
    """The node that cluster-autoscaler expects where a set of machines has none: of amd64, with kube-proxy.

    Raises
    ------
    InputError
        Names the set of machines and the annotation.
    """
    says = machines.capacity
    for name in says.keys() & {"cpu", "memory", "maxPods", "ephemeral-disk", "gpu-count"}:
        with located(ValueError, source=machines.source, path=f"{CAPACITY}{name}"):
            Quantity(says[name])
    capacity = {name: says[name] for name in ("cpu", "memory")} | {"pods": says.get("maxPods", "110")}
    if "ephemeral-disk" in says:
        capacity["ephemeral-storage"] = says["ephemeral-disk"]
    if "gpu-type" in says:
        capacity[says["gpu-type"]] = says.get("gpu-count", "0")
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    labels |= dict(text.split("=", 1) for text in says.get("labels", "").split(",") if "=" in text)
    taints = list[dict[str, str]]()
    for text in filter(None, says.get("taints", "").split(",")):
        taint, _, effect = text.partition(":")
        key, _, value = taint.partition("=")
        taints.append({"key": key, "value": value, "effect": effect})
    cpu = str(Quantity(says["cpu"]) - _KUBE_PROXY)
    status = {"capacity": capacity, "allocatable": capacity | {"cpu": cpu}}
    about = {"metadata": {"labels": labels}, "spec": {"taints": taints}, "status": status}
    return {"apiVersion": "v1", "kind": "Node"} | about


def _known_as(path: str, known: Iterable[str]) -> str:
    """The name of a group in the labels of its nodes: the longest that is part of its name in the cloud, as
    ``ng`` of ``eks-ng-0a1b``, ``aks-ng-123-vmss`` or ``…/gke-cluster-ng-0a1b-grp``."""
    parts = [each for each in known if re.search(f"(^|[-/]){re.escape(each)}([-./]|$)", path)]
    return max(parts, key=len, default=path)


def _pool(group: NodeGroup) -> str:
    """The value of the label by which a group is known."""
    return group.label.partition("=")[2]


def _merged(base: Mapping[str, Any], wins: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return fields of `GroupSettings` of which some win over others, and the paths where they differ."""
    out, differing = dict(base), list[str]()
    for key, value in wins.items():
        old = base.get(key)
        if key in ("flags", "scaleDown") and isinstance(old, dict) and isinstance(value, dict):
            out[key] = old | value
            differing += [f"{key}.{name}" for name in old if name in value and old[name] != value[name]]
        else:
            out[key] = value
            if old is not None and old != value:
                differing.append(key)
    if "priority" not in out.get("expander", ()):
        out.pop("priorities", None)
    return out, differing
