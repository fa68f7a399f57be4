"""Why cluster-autoscaler adds no node of a group for a pod, and which single changes would have it add one.
Each is tried by a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial, reduce
from itertools import chain
from typing import Any

from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.cluster.amounts import asked_by
from moorage.cluster.helpful_changes import (
    HelpfulChange,
    Kind,
    ObjectEdit,
    both,
    changes_for_new_node,
    lowered,
    of_pod,
    of_settings,
)
from moorage.cluster.requirements import changed_field
from moorage.kube import Node, Pod, Quantity
from moorage.kube.model.meta import whole
from moorage.kube.model.node import ZONE

from .autoscaler_protocol import AutoscalerSettings
from .cluster_autoscaler.group_states import NodeTemplate
from .cluster_autoscaler.pods_to_help import is_expendable
from .cluster_autoscaler.scale_up_pass import FULL, NOT_READY, ScaleUpResult
from .group_scaler import GroupScaler
from .group_settings import GroupSettings, NodeGroup, unknown_node
from .node_class_changes import requested_labels
from .scale_up_answer import more_text
from .trial import Trial

_BY_ZONE = {"NodeAffinity", "InterPodAffinity", "PodTopologySpread", "VolumeBinding", "VolumeZone"}
"""The plugins that may refuse a node for its zone."""


class NodeGroupTrial(Trial[ScaleUpResult]):
    """Loops of cluster-autoscaler about one pod and one group."""

    kind = "node group"

    def __init__(
        self,
        scheduler: PodScheduler,
        autoscaling: AutoscalerSettings,
        settings: GroupSettings,
        group: NodeGroup,
        pod: Pod,
    ) -> None:
        super().__init__(group.name, pod, scheduler.cache.state.classes.gates)
        self._scheduler, self._autoscaling, self._group = scheduler, autoscaling, group
        self._settings = structs.replace(settings, node_groups=[group])
        self._scaler = self._with(self._settings)

    @cached_property
    def _found(self) -> ScaleUpResult:
        with self.changed(()) as up:
            return up

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[ScaleUpResult]:
        """Return what a loop decides with changes."""
        pod, settings = self.pod, self._settings
        for edit in edits:
            pod = edit.change(pod) if edit.about is Pod else pod
            settings = edit.change(settings) if edit.about is None else settings
        yield next(self._with(settings).loops([pod]))

    def _with(self, settings: GroupSettings) -> GroupScaler:
        return GroupScaler(self._scheduler, replace(self._autoscaling, groups=settings))

    def _gain(self, up: ScaleUpResult) -> dict[str, str]:
        if not up.growths:
            return {}
        node = up.templates[self._group.name].node
        return {"node": f"a node more, {more_text(self._scaler.price(self._group, node))}"}

    def reason(self) -> str:
        """Why the group gets no node; "" if it gets one when the pod is alone."""
        if self._found.growths:
            return ""
        why = self._scaler.why(self._found, self.pod)
        own = why.rpartition("scale-up: 1 ")[2].replace(", 1 ", ", ")
        if own == NOT_READY and self._group.template is None and not self._scaler.sizes()[self.name]:
            return f"{own}: {unknown_node(self._group, self._scaler.scheduler.client.list(Node)[0])}"
        template = self._found.templates.get(self.name)
        rejected = chain.from_iterable(each.rejected.get(self.name, ()) for each in self._found.remaining)
        if template is not None and not _BY_ZONE.isdisjoint(rejected):
            zone = template.node.metadata.labels.get(ZONE)
            like = template.like and f", like {template.like}"
            own += f"; a new node is taken to be in {zone}{like}" if zone else ""
        return own or "the pod has room on a node that is there"

    def changes(self) -> Iterator[HelpfulChange]:
        """Yield the changes that help: of limits, of the template, and of the pod."""
        if is_expendable(self.pod, self._scaler.flags):
            cutoff = self._settings.expendable_pods_priority_cutoff
            raised = partial(changed_field, path="spec.priority", change=lambda _: cutoff)
            yield from self._try(Kind.POD_PRIORITY, f"raise its priority to {cutoff}", of_pod(raised))
        larger: list[HelpfulChange] = []  # room for a node more
        if any(FULL in each.skipped.values() for each in self._found.remaining):
            size = self._scaler.sizes()[self._group.name] + 1
            text = f"raise maxSize from {self._group.max_size} to {size}"
            larger = [HelpfulChange(Kind.LIMIT, text, (self._of_group(max_size=size),))]
        helped = [each for change in larger for each in self._tried(change)]
        yield from (*helped, *self._limits())
        template = self._found.templates.get(self._group.name)
        if template is None or helped:
            return
        if not larger:
            yield from self._of_template(template)
        for change in self._of_pod(template):
            yield from self._tried(reduce(both, (*larger, change)))

    def lacking(self) -> str:
        """Return what an empty group's template lacks, if a node comes with it; else ""."""
        template = self._group.template and self._found.templates.get(self._group.name)
        if template is None or self._found.growths:
            return ""
        return next((each.text.rpartition("its template ")[2] for each in self._of_template(template)), "")

    def _of_template(self, template: NodeTemplate) -> Iterator[HelpfulChange]:
        """Try the labels and the resources that the template of an empty group lacks."""
        if template.like or self._group.template is None:
            return
        has, asks = self._group.template.status.allocatable, asked_by(self.pod, self._gates)
        amounts = {name: str(amount) for name, amount in asks.items() if name not in has}
        added = (
            ("the label", "metadata.labels", self._added_labels()),
            ("allocatable", "status.allocatable", amounts),
        )
        for noun, path, more in added:
            if more:
                changed = changed_field(self._group.template, path, more.__ror__)
                text = (
                    f"give its template {noun} {', '.join(f'{key}={value}' for key, value in more.items())}"
                )
                yield from self._try(Kind.LABEL, text, self._of_group(template=changed))

    def _of_group(self, **fields: Any) -> ObjectEdit:
        group = structs.replace(self._group, **fields)
        return of_settings(partial(structs.replace, node_groups=[group]))

    def _added_labels(self) -> dict[str, str]:
        """The labels that the pod asks for and that the template of an empty group lacks, as those that a
        driver or a kubelet gives real nodes."""
        assert self._group.template is not None
        labels, added = self._group.template.metadata.labels, dict[str, str]()
        for key, values in requested_labels(self._scheduler.client, self.pod):
            if key not in labels and key not in added:
                zone = labels.get(ZONE, "")
                added[key] = zone if zone in values else values[0]
        return added

    def _limits(self) -> Iterator[HelpfulChange]:
        flags = self._settings.flags
        nodes = len(self._scheduler.context.view_order()) + 1
        for limit, value in (("maxNodesTotal", nodes), ("maxCores", None), ("maxMemory", None)):
            if limit in flags:
                left = {key: flag for key, flag in flags.items() if key != limit}
                raised = left | ({limit: value} if value else {})
                text = f"raise {limit} from {flags[limit]} to {value}" if value else f"raise {limit}"
                edit = of_settings(partial(structs.replace, flags=raised))
                yield from self._try(Kind.LIMIT, text, edit)

    def _of_pod(self, template: NodeTemplate) -> Iterator[HelpfulChange]:
        """Yield the largest request of each resource that a new node has room for, and other changes of the
        pod."""
        for name in asked_by(self.pod, self._gates):
            taken = [asked_by(pod, self._gates).get(name, Quantity("0")) for pod in template.pods]
            room = Quantity(str(template.node.status.allocatable.get(name, "0"))) - sum(taken, Quantity("0"))
            yield from lowered(self.pod, name, whole(name, room), self._gates)
        yield from changes_for_new_node(self.pod, template.node.spec.taints)
