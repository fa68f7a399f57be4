"""What cluster-autoscaler is told in files: node groups, and its flags (docs/autoscaling.md)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec.structs import asdict, replace

from moorage.errors import InputError, located, nearest
from moorage.kube import Node, Object
from moorage.kube.admission.validate_object import validate
from moorage.kube.apiserver.decode import decode_object
from moorage.kube.model.autoscaling import annotated_sizes
from moorage.kube.model.node import GKE_POOL, PROVIDER_LABELS, group_names, marks_of
from moorage.kube.read.documents import read_first
from moorage.kube.read.files import read_text, source_name
from moorage.kube.read.object_defaults import defaults
from moorage.kube.strict_documents import Strict, decode_part, parse_duration

from .cluster_autoscaler.flags import EXPANDERS, Flags, PodPrices
from .cluster_autoscaler.flags import ScaledGroup as ProviderGroup
from .cluster_autoscaler.group_states import node_state
from .providers.instance_type import ZONE

Time = str | float | int
Settings = TypeVar("Settings", bound="GroupSettings")
Part = TypeVar("Part", bound="Strict")

GROUP_LABEL = "moorage.dev/node-group"
"""Of the nodes that a replay adds."""
LONGEST_NAME = 63
PROVISION_TIME = 60.0
OF_GROUPS = frozenset(
    (
        *("scaleDownUtilizationThreshold", "scaleDownGpuUtilizationThreshold", "scaleDownUnneededTime"),
        *("scaleDownUnreadyTime", "ignoreDaemonSetsUtilization"),
    )
)
"""The flags that a group can set for itself."""
OTHER_FLAGS = frozenset(
    (
        *("maxNodesTotal", "maxNodesPerScaleUp", "maxCores", "maxMemory", "minCores", "minMemory"),
        *("balanceSimilarNodeGroups", "balancingIgnoreLabels", "balancingLabels", "cloudProvider"),
        *("forceDs", "scaleFromUnschedulable", "startupTaints", "statusTaints", "fastpathBinpacking"),
        *("newPodScaleUpDelay", "okTotalUnreadyCount", "maxTotalUnreadyPercentage"),
        *("scaleDownUnreadyEnabled", "scaleDownUnreadyTime", "unremovableNodeRecheckTimeout"),
        *("ignoreDaemonSetsUtilization", "ignoreMirrorPodsUtilization", "minReplicaCount"),
        *("blockingSystemPodDisruptionTimeout", "maxNodeStartupTime", "scaleDownGpuUtilizationThreshold"),
    )
)
"""Those that no field of its own sets, and that change what is decided."""
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SIZES = re.compile(r"(\d{1,6}):(\d{1,6}):(.+)")


class NodeGroup(Strict, frozen=True):
    """A group of equal nodes.

    Attributes
    ----------
    name : str
    template : str, dict, Node or None
        A new node where the group has none: a manifest, or the name of one (in a scenario of its templates,
        else of a node of the cluster).
    min_size, max_size : int
    provision_time : str or float
        From the request of a node until it joins, in a replay; seconds.
    price : float or None
        Of a node per hour.
    options : dict of str to value
        Flags of cluster-autoscaler for this group, in camel case.
    zero_or_max_node_scaling : bool
        Whether the group has no node or all of them.
    label : str
        ``KEY=VALUE``, which its nodes have. By default their label `GROUP_LABEL`, or one of
        `PROVIDER_LABELS`, is the name of the group.
    zone : str
        Of its nodes; "" for a group that may be in several.
    """

    name: str
    template: Any = None
    min_size: int = 0
    max_size: int = 1000
    provision_time: Time = PROVISION_TIME
    price: float | None = None
    options: dict[str, Any] = {}
    zero_or_max_node_scaling: bool = False
    label: str = ""
    zone: str = ""

    @property
    def marks(self) -> list[tuple[str, str]]:
        """Labels by which its nodes are known; new ones have the first."""
        if self.label:
            key, _, value = self.label.partition("=")
            return [(key, value)]
        return [(key, self.name) for key in (GROUP_LABEL, *PROVIDER_LABELS)]

    @property
    def stem(self) -> str:
        """What names of new nodes begin with."""
        return re.sub("[^-a-z0-9.]", "-", self.name.lower())[: LONGEST_NAME - 10].rstrip("-.")


class ScaleDown(Strict, frozen=True):
    """Removal of unneeded nodes by the rules of cluster-autoscaler; the fields are named as its flags.

    Attributes
    ----------
    utilization_threshold : float
        Up to which a node may be unneeded: the greater of the requested parts of cpu and memory.
    unneeded_time, delay_after_add, delay_after_delete : str or float
        Seconds, or text as ``10m``: how long a node has to be unneeded; how long nothing is removed after
        nodes were requested or removed.
    max_scale_down_parallelism, max_drain_parallelism : int
        Nodes that are removed at once; those among them that have pods to be moved.
    skip_nodes_with_system_pods, skip_nodes_with_local_storage, skip_nodes_with_custom_controller_pods : bool
        Which pods keep their node.
    """

    utilization_threshold: float = Flags.scale_down_utilization_threshold
    unneeded_time: Time = Flags.scale_down_unneeded_time
    delay_after_add: Time = Flags.scale_down_delay_after_add
    delay_after_delete: Time = Flags.scale_down_delay_after_delete
    max_scale_down_parallelism: int = Flags.max_scale_down_parallelism
    max_drain_parallelism: int = Flags.max_drain_parallelism
    skip_nodes_with_system_pods: bool = Flags.skip_nodes_with_system_pods
    skip_nodes_with_local_storage: bool = Flags.skip_nodes_with_local_storage
    skip_nodes_with_custom_controller_pods: bool = Flags.skip_nodes_with_custom_controller_pods


class GroupSettings(Strict, frozen=True):
    """Node groups, and the flags of the cluster-autoscaler that has them.

    Attributes
    ----------
    node_groups : list of NodeGroup
    expander : str or list of str
        Of `EXPANDERS`; each chooses among the groups that the one before has left, at last one is drawn.
    priorities : dict of int to list of str
        Regular expressions of names of groups, for ``priority``.
    pod_prices : PodPrices
        For ``price``.
    expendable_pods_priority_cutoff : int
        Pods of less priority do not have nodes added.
    scale_down : ScaleDown or None
    flags : dict of str to value
        Other flags of cluster-autoscaler, in camel case (`OTHER_FLAGS`).
    """

    node_groups: list[NodeGroup] = []
    expander: str | list[str] = "least-waste"
    priorities: dict[str | int, list[str]] = {}
    pod_prices: PodPrices = PodPrices()
    expendable_pods_priority_cutoff: int = Flags.expendable_pods_priority_cutoff
    scale_down: ScaleDown | None = None
    flags: dict[str, Any] = {}

    @property
    def expanders(self) -> list[str]:
        """The expanders in their order."""
        return [self.expander] if isinstance(self.expander, str) else list(self.expander)


def read_document(file: str) -> dict[str, Any]:
    """Read a file with the fields of `GroupSettings`, as a value.

    Raises
    ------
    InputError
        Names the file.
    """
    source = source_name(file)
    document = read_first(read_text(file), source)[0]
    with located(source=source):
        if document is None:
            raise InputError("is empty; it must have nodeGroups")
        if not isinstance(document, dict):
            decode_part(document, GroupSettings)
        if isinstance(document.get("kind"), str):
            raise InputError(_what_it_is(document))
    return dict(document)


def _what_it_is(document: Mapping[str, Any]) -> str:
    """What a file is that has an object in place of node groups, and what is wanted."""
    kind = document["kind"]
    if kind == "ConfigMap":
        return "is a ConfigMap: give those of cluster-autoscaler with -f, where they are read"
    items = [each for each in document.get("items") or () if isinstance(each, dict)]
    every = items or [dict(document)]
    groups = [group for each in every for group in _groups_of(each)]
    kind = every[0].get("kind", kind)
    sizes = [
        f"{group.get('minSize', 0)}:{group['maxSize']}:{group['name']}"
        for group in groups
        if isinstance(group, dict) and group.get("name") and group.get("maxSize")
    ]
    wanted = f", such as {','.join(sizes)}" if sizes else ""
    article = "an" if kind[:1] in "AEIOU" else "a"
    what = f"is {article} {kind}, but must have nodeGroups (docs/autoscaling.md)"
    return f"{what}; --group-sizes gives sizes{wanted}"


def _groups_of(document: Mapping[str, Any]) -> list[Any]:
    """Name, minSize and maxSize of the groups that an object of eksctl, OpenShift or kOps describes."""
    meta, spec = (document.get(part) for part in ("metadata", "spec"))
    meta, spec = (part if isinstance(part, dict) else {} for part in (meta, spec))
    name, notes = meta.get("name"), meta.get("annotations") or {}
    match document.get("kind"):
        case "ClusterConfig":
            return [*(document.get("managedNodeGroups") or ()), *(document.get("nodeGroups") or ())]
        case "InstanceGroup":
            return [{"name": name, "minSize": spec.get("minSize", 0), "maxSize": spec.get("maxSize")}]
        case "MachineAutoscaler":
            name = (spec.get("scaleTargetRef") or {}).get("name")
            return [{"name": name, "minSize": spec.get("minReplicas", 0), "maxSize": spec.get("maxReplicas")}]
        case "MachineSet" | "MachineDeployment":
            least, most = annotated_sizes(notes)
            return [{"name": name, "minSize": least or 0, "maxSize": most}]
    return []


def sized_groups(document: Mapping[str, Any], sizes: str, nodes: Iterable[Node]) -> GroupSettings:
    """Return checked node groups.

    Parameters
    ----------
    document : mapping
        The fields of `GroupSettings`.
    sizes : str
        ``MIN:MAX:NAME,…``, as for the flag ``--nodes`` of cluster-autoscaler: of groups of the document, or
        of others.
    nodes : iterable of Node
        To which templates may refer. A group without one remembers the first that is good, as
        cluster-autoscaler does from one loop to the next.

    Raises
    ------
    InputError
        Names the group and the field.
    """
    settings = decode_part(document, GroupSettings)
    groups, sized = list(settings.node_groups), set[str]()
    for text in filter(None, sizes.split(",")):
        parts = _SIZES.fullmatch(text)
        if parts is None:
            raise InputError(
                f'must be MIN:MAX:NAME, such as 0:10:web, not "{text[:80]}"', source="--group-sizes"
            )
        if parts[3] in sized:
            raise InputError(f"gives node group {parts[3]} two sizes", source="--group-sizes")
        sized.add(parts[3])
        (name, least, most), at = (parts[3], int(parts[1]), int(parts[2])), len(groups)
        at = next((at for at, group in enumerate(groups) if name in (group.name, group.marks[0][1])), at)
        old = groups[at] if at < len(groups) else NodeGroup(name)
        groups[at : at + 1] = [replace(old, min_size=least, max_size=most)]
    for group in groups:
        if group.provision_time != PROVISION_TIME:
            raise InputError(
                "is for replays: leave it out", obj=f"node group {group.name}", path="provisionTime"
            )
    there = list(nodes)
    groups = [part for group in groups for part in _of_each_zone(group, there)]
    by_name = {node.name: node for node in there}
    checked = checked_groups(replace(settings, node_groups=groups), by_name)
    flags, seen = flags_of(checked), dict[str, Node]()
    for name, of_group in group_by_node(checked.node_groups, there).items():
        node = by_name[name]
        if node_state(node, flags, False).is_ready and not node.spec.unschedulable:
            seen.setdefault(of_group, node)
    groups = [
        replace(group, template=seen.get(group.name)) if group.template is None else group
        for group in checked.node_groups
    ]
    return replace(checked, node_groups=groups)


def _of_each_zone(group: NodeGroup, nodes: Iterable[Node]) -> list[NodeGroup]:
    """The groups that a node pool of GKE is: one for each zone in which it has nodes, each with its sizes."""
    values = {value for key, value in group.marks if key == GKE_POOL}
    labels = [node.metadata.labels for node in nodes]
    zones = sorted({label.get(ZONE, "") for label in labels if label.get(GKE_POOL) in values} - {""})
    if group.zone or len(zones) < 2:
        return [group]
    mark = group.label or f"{GKE_POOL}={group.name}"
    return [replace(group, name=zonal_name(group.name, zone), label=mark, zone=zone) for zone in zones]


def unknown_node(group: NodeGroup, nodes: Iterable[Node]) -> str:
    """Return what is to be said of a group without a template and without any of the nodes."""
    near = nearest(group.name, group_names(nodes)).replace("; ", ", ")
    label = f"the label {group.label}" if group.label else f"a provider's label with its name{near}"
    text = f"no node has {label}, and it has no template, so what its nodes would be is not known here"
    return f"{text}; a file with --node-groups can say it"


def zonal_name(group: str, zone: str) -> str:
    """Return the name of the group of a zone."""
    return f"{group[: LONGEST_NAME - len(zone) - 1]}-{zone}"


def nodes_of_groups(settings: GroupSettings, nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Return the nodes of each group; of one that has none, that of its template, if it has one."""
    group_of = group_by_node(settings.node_groups, nodes)
    nodes_of: dict[str, list[Node]] = {node_group.name: [] for node_group in settings.node_groups}
    for node in nodes:
        if (name := group_of.get(node.name)) is not None:
            nodes_of[name].append(node)
    for node_group in settings.node_groups:
        if node_group.template is not None and not nodes_of[node_group.name]:
            nodes_of[node_group.name].append(node_group.template)
    return nodes_of


def group_by_node(groups: Sequence[NodeGroup], nodes: Iterable[Node]) -> dict[str, str]:
    """Return the group of each node that belongs to one, in the order of the nodes."""
    group_of = group_finder(groups)
    return {node.name: group for node in nodes if (group := group_of(node)) is not None}


def group_finder(groups: Sequence[NodeGroup]) -> Callable[[Node], str | None]:
    """Return a function of a node to its group; None for a node of none."""
    marks = {(*mark, group.zone): group.name for group in reversed(groups) for mark in reversed(group.marks)}
    keys = dict.fromkeys(key for key, *_ in reversed(marks))

    def group_of(node: Node) -> str | None:
        labels = marks_of(node)
        zone = labels.get(ZONE, "")
        for key in keys:
            if key in labels:
                group = marks.get((key, labels[key], zone)) or marks.get((key, labels[key], ""))
                if group is not None:
                    return group
        return None

    return group_of


def checked_groups(spec: Settings, templates: Mapping[str, Object]) -> Settings:
    """Check node groups and flags, and resolve templates and times.

    Parameters
    ----------
    templates : mapping of str to Object
        To which groups may refer.

    Raises
    ------
    InputError
        Names the group and the field.
    """
    groups = []
    for at, group in enumerate(spec.node_groups):
        with located(obj=f"node group {group.name}" if group.name else "", path=f"nodeGroups[{at}]"):
            groups.append(_group(group, templates))
    if not groups:
        raise InputError("must have at least one node group", path="nodeGroups")
    labels = [f"{group.label} in {group.zone}" if group.zone else group.label for group in groups]
    for which, texts in (("name", [group.name for group in groups]), ("label", labels)):
        for text in filter(None, texts):
            if texts.count(text) > 1:
                raise InputError(
                    f"{texts.count(text)} node groups have the {which} {text}", path="nodeGroups"
                )
    _check_expanders(spec)
    with located(path="flags"):
        read_flags(spec.flags, OTHER_FLAGS)
    down = spec.scale_down
    if down is not None:
        with located(path="scaleDown"):
            if not 0 <= down.utilization_threshold <= 1:
                raise InputError("must be from 0 to 1", path="utilizationThreshold")
            if down.max_scale_down_parallelism < 1 or down.max_drain_parallelism < 0:
                raise InputError("must be at least 1", path="maxScaleDownParallelism")
            down = in_seconds(down)
    return replace(spec, node_groups=groups, scale_down=down)


def flags_of(spec: GroupSettings) -> Flags:
    """Return the flags of cluster-autoscaler that checked settings set."""
    flags = Flags(
        expanders=tuple(spec.expanders),
        priorities={int(key): tuple(patterns) for key, patterns in spec.priorities.items()},
        pod_prices=spec.pod_prices,
        expendable_pods_priority_cutoff=spec.expendable_pods_priority_cutoff,
        scale_down_enabled=spec.scale_down is not None,
        **read_flags(spec.flags, OTHER_FLAGS),
    )
    if (down := spec.scale_down) is None:
        return flags
    values, known = asdict(down), {field.name for field in dataclasses.fields(Flags)}
    own = {name if name in known else f"scale_down_{name}": value for name, value in values.items()}
    if "scaleDownGpuUtilizationThreshold" not in spec.flags:
        own["scale_down_gpu_utilization_threshold"] = down.utilization_threshold
    return dataclasses.replace(flags, **own)


def groups_of(spec: GroupSettings) -> list[ProviderGroup]:
    """Return the groups of checked settings as cluster-autoscaler knows them."""
    return [
        ProviderGroup(
            node_group.name,
            node_group.template,
            node_group.min_size,
            node_group.max_size,
            price=node_group.price,
            overrides=read_flags(node_group.options, OF_GROUPS),
            zero_or_max=node_group.zero_or_max_node_scaling,
        )
        for node_group in spec.node_groups
    ]


def read_flags(values: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the fields of `Flags` that some flags set.

    Parameters
    ----------
    known : frozenset of str
        Flags that may be set.

    Raises
    ------
    InputError
        Names the flag.
    """
    kinds, out = get_type_hints(Flags), dict[str, Any]()
    for name, value in values.items():
        field = re.sub(r"(?=[A-Z])", "_", name).lower()
        with located(path=name):
            if name not in known:
                raise InputError(f"must be one of {', '.join(sorted(known))}")
            if kinds[field] is float and isinstance(value, str):
                value = parse_duration(value)
            try:
                out[field] = msgspec.convert(value, kinds[field])
            except msgspec.ValidationError as error:
                raise InputError(str(error)) from None
            if isinstance(out[field], int | float) and out[field] < 0:
                raise InputError(f"must be at least 0, not {value}")
    return out


def in_seconds(part: Part) -> Part:
    """Return a part of an autoscaler with its times in seconds; an error names the field."""
    kinds, times = get_type_hints(type(part)), dict[str, float]()
    for name, path in zip(part.__struct_fields__, part.__struct_encode_fields__, strict=True):
        if kinds[name] == Time:
            with located(path=path):
                times[name] = parse_duration(getattr(part, name))
    return replace(part, **times)


def _group(group: NodeGroup, templates: Mapping[str, Object]) -> NodeGroup:
    if len(group.name) > LONGEST_NAME or not LABEL_VALUE.fullmatch(group.name):
        raise InputError(f"must be the value of a label, at most {LONGEST_NAME} characters", path="name")
    if group.label and not all(group.label.partition("=")[:2]):
        raise InputError("must be KEY=VALUE, a label that the nodes of the group have", path="label")
    if not 0 <= group.min_size <= group.max_size:
        raise InputError(
            f"must be from 0 to maxSize ({group.max_size}), not {group.min_size}", path="minSize"
        )
    if group.price is not None and not (0 <= group.price < math.inf):
        raise InputError(f"must be at least 0, not {group.price}", path="price")
    with located(path="options"):
        read_flags(group.options, OF_GROUPS)
    template = group.template
    with located(path="template"):
        if isinstance(template, str):
            if template not in templates:
                raise InputError(f'there is no template "{template}"{nearest(template, templates)}')
            template = templates[template]
        elif isinstance(template, dict):
            template = decode_object(template)
        if template is not None:
            if not isinstance(template, Node):
                raise InputError("must be a Node")
            named = replace(template, metadata=replace(template.metadata, name=group.stem))
            validate(named)
            if not (named.status.allocatable or named.status.capacity):
                raise InputError("has no allocatable resources, so no pod fits on it", path="status")
            (template,) = defaults([named])
    return in_seconds(replace(group, template=template))


def _check_expanders(spec: GroupSettings) -> None:
    names = spec.expanders
    if not names or len(set(names)) < len(names) or not set(names) <= set(EXPANDERS):
        raise InputError(f"must be some of {', '.join(EXPANDERS)}", path="expander")
    if bool(spec.priorities) != ("priority" in names):
        raise InputError("are for the expander priority, which needs them", path="priorities")
    for key, patterns in spec.priorities.items():
        with located(path=f"priorities.{key}"):
            try:
                int(key)
                [re.compile(pattern) for pattern in patterns]
            except (ValueError, re.error) as error:
                raise InputError(str(error)) from None
    if min(spec.pod_prices.cpu, spec.pod_prices.memory) <= 0:
        raise InputError("must be more than 0", path="podPrices")
