"""Why cluster-autoscaler adds no node of a group for a pod, and which single changes would have it add one.
Each is tried by a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.engine.framework.evidence import asked_by
from moorage.engine.requirements import whole
from moorage.kube import PersistentVolume, PersistentVolumeClaim, Pod, Quantity
from moorage.kube.model.node import ZONE

from .autoscaler_protocol import AutoscalerSettings
from .cluster_autoscaler.group_states import NodeTemplate
from .cluster_autoscaler.pods_to_help import is_expendable
from .cluster_autoscaler.scale_up_pass import FULL, ScaleUpResult
from .group_scaler import GroupScaler
from .group_settings import GroupSettings, NodeGroup
from .pool_refusals import PoolRefusal, Remedy, lowered, pod_changes
from .scale_up_answer import CLUSTER_AUTOSCALER, ScaleUp, price_text


def group_refusals(scheduler: PodScheduler, autoscaling: AutoscalerSettings, pod: str) -> list[PoolRefusal]:
    """Return why no node group gets a node for a pod (``namespace/name``), in the order of the groups."""
    if autoscaling.groups is None:
        return []
    (waiting,) = (stored for stored in scheduler.client.list(Pod)[0] if stored.key == pod)
    tries = [
        _GroupLoops(scheduler, autoscaling, autoscaling.groups, node_group, waiting)
        for node_group in autoscaling.groups.node_groups
    ]
    return [
        PoolRefusal(each.group.name, why, tuple(each.remedies()), "node group")
        for each in tries
        if (why := each.reason())
    ]


def template_facts(scheduler: PodScheduler, autoscaling: AutoscalerSettings, up: ScaleUp) -> Iterator[str]:
    """Yield which empty groups would get a node for the first pod that waits with a label more."""
    refused = [pod.pod for pod in up.waiting if CLUSTER_AUTOSCALER in pod.refusals]
    if autoscaling.groups is None or not refused:
        return
    (pod,) = (pod for pod in scheduler.client.list(Pod)[0] if pod.key == refused[0])
    for group in [
        node_group for node_group in autoscaling.groups.node_groups if node_group.template is not None
    ]:
        if text := _GroupLoops(scheduler, autoscaling, autoscaling.groups, group, pod).lacking_labels():
            yield f"node group {group.name} has no node, and its template lacks {text}, for {pod.key}"


class _GroupLoops:
    """Loops about one pod and one group."""

    def __init__(
        self,
        scheduler: PodScheduler,
        autoscaling: AutoscalerSettings,
        settings: GroupSettings,
        group: NodeGroup,
        pod: Pod,
    ) -> None:
        self._scheduler, self._autoscaling, self._pod = scheduler, autoscaling, pod
        self.group, self._settings = group, structs.replace(settings, node_groups=[group])
        self._gates = scheduler.cache.state.classes.gates
        self._scaler = GroupScaler(scheduler, autoscaling, self._settings)
        self._found = self._loop(pod, self._settings)

    def reason(self) -> str:
        """Why the group gets no node; "" if it gets one when the pod is alone."""
        if self._found.growths:
            return ""
        why = self._scaler.why(self._found, self._pod)
        return why.rpartition("scale-up: 1 ")[2] or "the pod has room on a node that is there"

    def remedies(self) -> Iterator[Remedy]:
        """Yield the changes that help: of limits, and of the pod."""
        if is_expendable(self._pod, self._scaler.flags):
            cutoff = self._settings.expendable_pods_priority_cutoff
            spec = structs.replace(self._pod.spec, priority=cutoff)
            yield from self._tried(f"raise its priority to {cutoff}", structs.replace(self._pod, spec=spec))
        yield from self._limits()
        template = self._found.templates.get(self.group.name)
        if template is None:
            return
        if self._is_full:
            larger, text = self._larger()
            if not self._loop(self._pod, larger).growths:
                both = self._of_pod(template, larger)
                yield from (each._replace(change=f"{text}, and {each.change}") for each in both)
        else:
            yield from self._of_template(template)
            yield from self._of_pod(template, self._settings)

    def lacking_labels(self) -> str:
        """Return the labels that an empty group's template lacks, if a node comes with them; else ""."""
        template = self._found.templates.get(self.group.name)
        if template is None or self._found.growths or not any(self._of_template(template)):
            return ""
        return _text_of(self._added_labels(template))

    def _of_template(self, template: NodeTemplate) -> Iterator[Remedy]:
        """Try the labels that the template of an empty group lacks."""
        if not (added := self._added_labels(template)):
            return
        node = self.group.template
        labels = node.metadata.labels | added
        labelled = structs.replace(node, metadata=structs.replace(node.metadata, labels=labels))
        group = structs.replace(self.group, template=labelled)
        settings = structs.replace(self._settings, node_groups=[group])
        yield from self._tried(f"give its template the label {_text_of(added)}", self._pod, settings)

    def _added_labels(self, template: NodeTemplate) -> dict[str, str]:
        """The labels that the pod asks for and that the template of an empty group lacks, as those that a
        driver or a kubelet gives real nodes."""
        added = dict[str, str]()
        if template.like or self.group.template is None:
            return added
        labels = self.group.template.metadata.labels
        for key, values in self._requested_labels():
            if key not in labels and key not in added:
                zone = labels.get(ZONE, "")
                added[key] = zone if zone in values else values[0]
        return added

    def _requested_labels(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the labels that the pod asks for itself or by its volumes, with the values that suit it."""
        yield from ((key, (value,)) for key, value in (self._pod.spec.node_selector or {}).items())
        affinity = self._pod.spec.affinity
        selectors = [affinity.node_affinity.required if affinity and affinity.node_affinity else None]
        client = self._scheduler.client
        claims = {claim.key: claim.spec.volume_name for claim in client.list(PersistentVolumeClaim)[0]}
        volumes = {volume.name: volume.spec.node_affinity for volume in client.list(PersistentVolume)[0]}
        for key in self._pod.claim_keys():
            if needs := volumes.get(claims.get(key, "")):
                selectors.append(needs.required)
        for selector in filter(None, selectors):
            for each in selector.node_selector_terms[0].match_expressions:
                if each.operator == "In" and each.values:
                    yield each.key, tuple(each.values)

    @property
    def _is_full(self) -> bool:
        return any(FULL in each.skipped.values() for each in self._found.remaining)

    def _larger(self) -> tuple[GroupSettings, str]:
        """The settings with room for a node more."""
        size = self._scaler.sizes()[self.group.name]
        group = structs.replace(self.group, max_size=size + 1)
        text = f"raise maxSize from {self.group.max_size} to {size + 1}"
        return structs.replace(self._settings, node_groups=[group]), text

    def _limits(self) -> Iterator[Remedy]:
        flags = self._settings.flags
        if self._is_full:
            larger, text = self._larger()
            yield from self._tried(text, self._pod, larger)
        nodes = len(self._scheduler.context.view_order()) + 1
        for limit, value in (("maxNodesTotal", nodes), ("maxCores", None), ("maxMemory", None)):
            if limit in flags:
                left = {key: flag for key, flag in flags.items() if key != limit}
                raised = structs.replace(self._settings, flags=left | ({limit: value} if value else {}))
                text = f"raise {limit} from {flags[limit]} to {value}" if value else f"raise {limit}"
                yield from self._tried(text, self._pod, raised)

    def _of_pod(self, template: NodeTemplate, settings: GroupSettings) -> Iterator[Remedy]:
        pod = self._pod
        for name in asked_by(pod, self._gates):
            yield from self._smaller(name, template, settings)
        for text, changed in pod_changes(pod, template.node.spec.taints):
            yield from self._tried(text, changed, settings)

    def _smaller(self, name: str, template: NodeTemplate, settings: GroupSettings) -> Iterator[Remedy]:
        """Try the largest request of a resource that a new node has room for."""
        taken = [asked_by(pod, self._gates).get(name, Quantity("0")) for pod in template.pods]
        room = Quantity(str(template.node.status.allocatable.get(name, "0"))) - sum(taken, Quantity("0"))
        for text, smaller in lowered(self._pod, name, whole(name, room), self._gates):
            yield from self._tried(f"lower the request {text}", smaller, settings)

    def _tried(self, text: str, pod: Pod, settings: GroupSettings | None = None) -> Iterator[Remedy]:
        """Yield a change, if it helps."""
        up = self._loop(pod, settings or self._settings)
        if up.growths:
            node = up.templates[self.group.name].node
            yield Remedy(text, f"a node more, {price_text(self._scaler.price(self.group, node))}")

    def _loop(self, pod: Pod, settings: GroupSettings) -> ScaleUpResult:
        return next(GroupScaler(self._scheduler, self._autoscaling, settings).loops([pod]))


def _text_of(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())
