"""The chain of admission: the steps of the API server that change or refuse an object, in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.grouped import grouped
from moorage.lazy import NamedTuple

from ..apiserver.overlay import key_of
from ..apiserver.unread_fields import has_hidden
from ..field_errors import Json, aggregate
from ..model.admission_registration import MutatingAdmissionPolicy, ValidatingAdmissionPolicy
from ..model.autoscaling import VerticalPodAutoscaler
from ..model.cluster import Cluster, RefusedPod
from ..model.meta import Object
from ..model.node import Namespace
from ..model.pod import Pod, PodSpec, UnreadFields
from ..model.policy import ResourceQuota
from ..model.resource_claims import DeviceClass, ResourceClaim
from ..plain import joined
from ..releases import DEFAULT_GATES, RESOURCE_QUOTA, FeatureGates
from ..workloads.ownership import has_made_up_uid, stable_uid
from .built_in_plugins import (
    AdminAccessPlugin,
    AntiAffinityTopologyPlugin,
    ClaimResizePlugin,
    DefaultStorageClassPlugin,
    PriorityClassPlugin,
    ServiceAccountPlugin,
    switched_plugins,
)
from .pod_requests import Quantities, with_pod_level_defaults, with_recommendation
from .policies import Policies
from .policy.silent_webhooks import SilentWebhooks
from .request import (
    ADMIN,
    AdmissionPlugin,
    AdmissionRequest,
    Answer,
    Decider,
    NotAdmittedError,
    Operation,
    RefusedError,
    UserInfo,
    creator_of,
    mutated,
    refused,
    user_of,
    without_admission,
)
from .resource_quotas import ZERO, ClassResources, QuotaUsage, counts_objects, usage, usage_of_object
from .secured_namespaces import PodSecurityPlugin, SecuredNamespaces
from .siblings import Siblings, TemplateDifference, with_difference
from .validate_object import pod_spec_faults

if TYPE_CHECKING:  # few clusters have policies
    from .policy.policy_plugins import AdmissionPolicies

WARNED = "Validation failed for "
"""How warnings of policies begin."""
TERMINATING = "unable to create new content in namespace {} because it is being terminated"


class NamespaceLifecyclePlugin(AdmissionPlugin):
    """Nothing is created in a namespace that is being deleted."""

    name = "NamespaceLifecycle"

    def __init__(self, objects: Iterable[Object]) -> None:
        self._terminating = {
            obj.name
            for obj in objects
            if isinstance(obj, Namespace) and obj.metadata.deletion_timestamp is not None
        }

    def mutate(self, request: AdmissionRequest) -> Object:
        """Refuse a creation; nothing is changed."""
        if request.operation == "CREATE" and request.namespace in self._terminating:
            raise NotAdmittedError(TERMINATING.format(request.namespace))
        return request.obj


class _Template(NamedTuple):
    """The outcome of the chain for pods that are alike, but for quotas: what differs from the pod as it was
    sent, or the refusal."""

    original: PodSpec
    spec: PodSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    unread: UnreadFields | None
    refusal: NotAdmittedError | None
    warnings: tuple[str, ...]
    usage: Quantities

    @property
    def changes_metadata(self) -> bool:
        """Whether labels or annotations are added."""
        return bool(self.labels or self.annotations)


class Admission:
    """Admits requests as kube-apiserver does with its default plugins, in this order.

    1. **Plugins that change objects**, each in its turn (`mutating`): NamespaceLifecycle, LimitRanger, what
       the input shows that a distribution adds (`Additions`), Priority, RuntimeClass. The value and the
       preemption policy of a class are set with the other defaults (`default_pod_spec`), as are the
       tolerations of DefaultTolerationSeconds.
    2. **Webhooks**, which cannot be asked: a new pod of a workload differs from its template as its siblings
       do, and gets the requests that a VerticalPodAutoscaler recommends. Then the plugins run once more.
       What is known of them is that those refuse that fail closed and that nobody answers.
    3. **Validation** of what results: a default limit may be below a request (see `pod_spec_faults`).
    4. **Plugins that only refuse** (`validating`): LimitRanger, PodSecurity.
    5. **ResourceQuota**: the usage of the pods so far and of the new one must not exceed a quota. Other
       objects count by number, claims by their storage and class, too.

    A pod with a value in ``spec.priority`` keeps it, also if the API server would compute another one.

    Parameters
    ----------
    policies : iterable of Object
        Limit ranges, quotas, runtime and priority classes, namespaces, and what `Additions` reads; other
        kinds are ignored.
    pods : callable
        Returns the pods of a namespace, finished ones included. It is called once for each namespace with a
        quota, before the first pod of the namespace is admitted.
    objects : callable, optional
        Returns the other objects of a namespace; likewise. By default there are none.
    webhooks : SilentWebhooks, optional
        Those that nobody answers; by default there are none.
    siblings : Siblings, optional
        How running pods differ from their templates; by default nothing is known of that.
    gates : callable, optional
        Returns the feature gates of the API server, with its release.

    Attributes
    ----------
    user : UserInfo or None
        Who makes the requests; None for the controllers of objects.
    documents : callable
        Returns the manifest of an object; an empty one where there is none.
    """

    def __init__(
        self,
        policies: Iterable[Object],
        pods: Callable[[str], Iterable[Pod]],
        objects: Callable[[str], Iterable[Object]] = lambda _: (),
        webhooks: SilentWebhooks | None = None,
        siblings: Siblings | None = None,
        gates: Callable[[], FeatureGates] = lambda: DEFAULT_GATES,
    ) -> None:
        listed = list(policies)
        self.security = SecuredNamespaces(listed, lambda: gates().release.version)
        self._policies = Policies(listed, gates)
        self.additions = self._policies.additions
        self.switched = switched_plugins(listed)
        enabled, disabled = self.switched.enabled, self.switched.disabled
        self.mutating: list[AdmissionPlugin] = [
            NamespaceLifecyclePlugin(listed),
            *([AntiAffinityTopologyPlugin()] if AntiAffinityTopologyPlugin.name in enabled else ()),
            ServiceAccountPlugin(listed),
            *self._policies.plugins,
            DefaultStorageClassPlugin(listed),
        ]
        self.refusing: list[AdmissionPlugin] = [
            AdminAccessPlugin(listed),
            self._policies.limit_ranger,
            PodSecurityPlugin(self.security),
            PriorityClassPlugin(listed),
            ClaimResizePlugin(listed),
        ]
        for plugins_of_phase in (self.mutating, self.refusing):
            plugins_of_phase[:] = [plugin for plugin in plugins_of_phase if plugin.name not in disabled]
        self.user: UserInfo | None = None
        self.documents: Callable[[Object], Json] = lambda _: {}
        self.policies: AdmissionPolicies | None = None
        if any(isinstance(obj, ValidatingAdmissionPolicy | MutatingAdmissionPolicy) for obj in listed):
            from .policy import policy_plugins as steps  # few clusters have policies

            self.policies = steps.AdmissionPolicies(listed)
            before = [*self.mutating]
            self.mutating.append(
                steps.MutatingAdmissionPolicies(self.policies, lambda request: mutated(request, before))
            )
            self.refusing.append(steps.ValidatingAdmissionPolicies(self.policies))
        self._quotas: defaultdict[str, list[ResourceQuota]] = defaultdict(list)
        for obj in listed:
            if isinstance(obj, ResourceQuota) and RESOURCE_QUOTA not in disabled:
                self._quotas[obj.namespace].append(obj)
        self._device_classes = [obj for obj in listed if isinstance(obj, DeviceClass)]
        self._gates = gates
        self._begin(Existing(pods, objects, webhooks), siblings)

    def _begin(self, existing: Existing, siblings: Siblings | None) -> None:
        """Charge nothing yet, and know of no pod that was admitted."""
        first, *rest = self.refusing
        self.validating = [first, *([] if existing.webhooks is None else [existing.webhooks]), *rest]
        self.webhooks, self.siblings = existing.webhooks, siblings or Siblings()
        plugins = dict.fromkeys([*self.mutating, *self.validating])
        self._marking = [plugin for plugin in plugins if type(plugin).mark is not AdmissionPlugin.mark]
        self._pods, self._objects = existing.pods, existing.objects
        self._class_resources = ClassResources(self._device_classes, self._pods, self._objects)
        self._usages: dict[str, list[QuotaUsage]] = {}
        self._templates: dict[tuple[object, ...], _Template] = {}
        self._latest: tuple[Pod, _Template] | None = None  # a controller sends one pod for all replicas

    def begun_with(self, existing: Existing, siblings: Siblings | None) -> Admission:
        """Return the admission by the same policies where other pods and objects exist."""
        out = copy(self)
        out._begin(existing, siblings)
        return out

    def request(self, obj: Object, old: Object | None = None) -> AdmissionRequest:
        """Return the request for a new object, or for the new state of an old one."""
        user, operation = self.user or creator_of(obj), "CREATE" if old is None else "UPDATE"
        return AdmissionRequest(obj, cast("Operation", operation), old, user, document=self.documents(obj))

    # ---- pods ----

    def admit(self, pod: Pod) -> Pod:
        """Admit a new pod.

        Parameters
        ----------
        pod : Pod
            With the defaults of the API server, and a name or the prefix of one.

        Returns
        -------
        Pod
            The pod as it is stored. Pods with one spec share the spec of the result.

        Raises
        ------
        RefusedError
            The pod is refused.
        """
        return self.admit_many(pod, 1)[0]

    def admit_uncharged(self, pod: Pod) -> Pod:
        """Admit a new pod as if its namespace had no quotas.

        Returns
        -------
        Pod
            The pod as it is stored.

        Raises
        ------
        RefusedError
            The pod is refused.
        """
        template = self._template(pod)
        if template.refusal is not None:
            raise refused(AdmissionRequest(pod), template.refusal)
        if template.changes_metadata:
            meta = pod.metadata
            labels = {**meta.labels, **template.labels}
            annotations = {**meta.annotations, **template.annotations}
            pod = replace(pod, metadata=replace(meta, labels=labels, annotations=annotations))
        if template.unread is not None:
            pod = replace(pod, unread=template.unread)
        return pod if template.spec is pod.spec else replace(pod, spec=template.spec)

    def admit_many(self, pod: Pod, n: int) -> tuple[Pod, int]:
        """Admit new pods that differ in their names only, up to the first that is refused.

        Parameters
        ----------
        n : int
            Number of pods, at least 1.

        Returns
        -------
        Pod
            As it is stored.
        int
            How many are admitted.

        Raises
        ------
        RefusedError
            The first one is refused.
        """
        admitted, template = self.admit_uncharged(pod), self._template(pod)
        try:
            if pod.namespace in self._quotas:
                matching = self._checked(admitted, template)
                for quota in matching if n > 1 else ():
                    n = quota.room(template.usage, n)
                for quota in matching:
                    quota.charge(template.usage, n)
        except NotAdmittedError as error:
            raise refused(AdmissionRequest(pod), error) from None
        return admitted, n

    def charge(self, pod: Pod) -> None:
        """Charge a pod that was admitted to the quotas of its namespace.

        Raises
        ------
        RefusedError
            One has no room for it.
        """
        if pod.namespace in self._quotas:
            self.admit(pod)

    def check(self, pod: Pod, gone: Pod | None = None) -> None:
        """Check that a new pod is admitted, and charge no quota for it.

        Parameters
        ----------
        gone : Pod, optional
            One of its namespace whose place it takes.

        Raises
        ------
        RefusedError
            The pod is refused.
        """
        admitted = self.admit_uncharged(pod)
        quotas = self.quotas_of(pod.namespace) if gone is not None and pod.namespace in self._quotas else ()
        freed = [quota for quota in quotas if gone is not None and quota.matches(gone)]
        used = usage(gone) if gone is not None and freed else {}
        for quota in freed:
            quota.charge(used, -1)
        try:
            self._checked(admitted, self._template(pod))
        except NotAdmittedError as error:
            raise refused(AdmissionRequest(pod), error) from None
        finally:
            for quota in freed:
                quota.charge(used)

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod would be changed, refused or charged to a quota."""
        template = self._template(pod)
        changes = template.spec is not pod.spec or template.changes_metadata or template.unread is not None
        return template.refusal is not None or changes or pod.namespace in self._quotas

    def warnings(self, pod: Pod) -> tuple[str, ...]:
        """Return what the server warns of when it admits a new pod."""
        return self._template(pod).warnings

    def _template(self, pod: Pod) -> _Template:
        if self._latest is not None and self._latest[0] is pod:
            return self._latest[1]
        difference, autoscaler = self.siblings.difference_for(pod), self._policies.autoscaler_of(pod)
        request = self.request(pod)
        marks = [plugin.mark(request) for plugin in self._marking]
        key = pod.namespace, id(pod.spec), id(difference), id(autoscaler), *marks
        template = self._templates.get(key)
        if template is None or template.original is not pod.spec:
            template = self._templates[key] = self._admit_spec(request, difference, autoscaler)
        self._latest = pod, template
        return template

    def _admit_spec(
        self,
        request: AdmissionRequest,
        difference: TemplateDifference | None,
        autoscaler: VerticalPodAutoscaler | None,
    ) -> _Template:
        """Take a pod through the chain, but for quotas."""
        pod = cast("Pod", request.obj)
        original, meta = pod.spec, pod.metadata
        of_webhooks = {} if difference is None else difference.labels
        try:
            request, difference = self._completed(request, difference)
            changed = cast("Pod", request.obj)
            if autoscaler is not None:
                ranges = self._policies.limit_ranger.ranges.get(pod.namespace, ())
                sized = with_recommendation(changed.spec, autoscaler, ranges)
                if sized is changed.spec:
                    autoscaler = None
                changed = replace(changed, spec=sized)
            if difference is not None or autoscaler is not None:
                self.siblings.note(pod, difference, "" if autoscaler is None else autoscaler.name)
            if original.resources is not None and self._gates()["PodLevelResourcesFixDefaulting"]:
                changed = replace(changed, spec=with_pod_level_defaults(original, changed.spec))
            result = request.changed(changed)
            _validate(result)
            warnings = _validated(result, self.validating)
        except NotAdmittedError as error:
            return _Template(original, original, {}, {}, None, error, (), {})
        spec = original if changed.spec == original else changed.spec
        labels = {**of_webhooks, **_added(meta.labels, changed.metadata.labels)}
        annotations = _added(meta.annotations, changed.metadata.annotations)
        unread = None if changed.unread is pod.unread else changed.unread
        used = usage(changed) if pod.namespace in self._quotas else {}
        return _Template(original, spec, labels, annotations, unread, None, tuple(warnings), used)

    def _completed(
        self, request: AdmissionRequest, difference: TemplateDifference | None
    ) -> tuple[AdmissionRequest, TemplateDifference | None]:
        """Return a request for a pod with what plugins and webhooks set, and what of a difference it has got.

        The plugins run again after the webhooks.
        """
        pod = cast("Pod", request.obj)
        if difference is None:
            return mutated(request, self.mutating), None

        def completed(spec: PodSpec) -> AdmissionRequest:
            return mutated(request.changed(replace(pod, spec=spec)), self.mutating)

        before = cast("Pod", completed(replace(pod.spec, **difference.classes)).obj)
        request = completed(with_difference(difference.before, difference.after, before.spec))
        changed = cast("Pod", request.obj)
        labels = {**changed.metadata.labels, **difference.labels}
        changed = replace(changed, metadata=replace(changed.metadata, labels=labels))
        return request.changed(changed), difference.seen_in(pod, before.spec, changed.spec)

    def _checked(self, admitted: Pod, template: _Template) -> list[QuotaUsage]:
        """Return the quotas that count a pod; each has room for it."""
        if admitted.namespace not in self._quotas:
            return []
        matching = [quota for quota in self.quotas_of(admitted.namespace) if quota.matches(admitted)]
        for quota in matching:
            quota.check_constraints(template.spec)
        for quota in matching:
            quota.check(template.usage)
        return matching

    # ---- other objects ----

    def answer(self, request: AdmissionRequest) -> Answer:
        """Take a request for an object that is no new pod through the chain; a new one is charged to quotas.

        Parameters
        ----------
        request : AdmissionRequest
            Its object has passed validation, and has the defaults of the API server.
        """
        mutating: Sequence[AdmissionPlugin] = self.mutating
        validating: Sequence[AdmissionPlugin] = self.validating
        if request.is_decided_only:
            mutating, validating = (
                [plugin for plugin in plugins if isinstance(plugin, Decider)]
                for plugins in (mutating, validating)
            )
        try:
            request = mutated(request, mutating)
            obj, warnings = request.obj, _validated(request, validating)
            if request.namespace in self._quotas and not request.is_decided_only:
                self._charge_object(obj, request.old)
        except NotAdmittedError as error:
            return Answer(None, refused(request, error), ())
        return Answer(obj, None, tuple(warnings))

    def admit_object(self, obj: Object) -> Object:
        """Admit a new object that is no pod, and return it as it is stored.

        Raises
        ------
        RefusedError
            The object is refused.
        """
        answer = self.answer(self.request(obj))
        if answer.obj is None:
            raise answer.refusal or AssertionError
        return answer.obj

    def _charge_object(self, obj: Object, old: Object | None) -> None:
        """Charge an object, or what it uses more than before, to the quotas that count it."""
        before = {} if old is None else self._usage_of(old)
        used = {name: amount - before.get(name, ZERO) for name, amount in self._usage_of(obj).items()}
        used = {name: amount for name, amount in used.items() if amount.sign() > 0}
        matching = [quota for quota in self.quotas_of(obj.namespace) if quota.counts_object(obj, used)]
        for quota in matching:
            quota.check(used)
        for quota in matching:
            quota.charge(used)

    def quotas_of(self, namespace: str) -> list[QuotaUsage]:
        """Return the quotas of a namespace with their usage."""
        if namespace not in self._usages:
            pods, quotas = list(self._pods(namespace)), self._quotas[namespace]
            names = {name for quota in quotas for name in quota.spec.hard}
            counts = any(counts_objects(name) or self._class_resources.counts(name) for name in names)
            listed = self._objects(namespace) if counts else ()
            objects = [(obj, self._usage_of(obj)) for obj in listed]
            self._usages[namespace] = [QuotaUsage(quota, pods, objects) for quota in quotas]
        return self._usages[namespace]

    def _usage_of(self, obj: Object) -> Quantities:
        """Return what an object that is no pod uses of quotas."""
        if isinstance(obj, ResourceClaim) and self._gates()["DRAExtendedResource"]:
            return self._class_resources.usage(obj)
        return usage_of_object(obj)


def _validated(request: AdmissionRequest, plugins: Iterable[AdmissionPlugin]) -> list[str]:
    """Return the warnings of the plugins that run after validation."""
    return [text for plugin in plugins for text in plugin.validate(request)]


def _validate(request: AdmissionRequest) -> None:
    """Check what the plugins made of a pod; all that is wrong is told at once."""
    pod = cast("Pod", request.obj)
    if faults := [": ".join(fault) for fault in pod_spec_faults(msgspec.to_builtins(pod.spec), "spec")]:
        text = f'Pod "{request.name}" is invalid: {aggregate(faults)}'
        raise NotAdmittedError(text, 422, "Invalid", is_whole=True)


def _added(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a map has that it had not before, or had otherwise."""
    return {} if after is before else {key: after[key] for key in after if after[key] != before.get(key)}


# ---- new pods ----------------------------------------------------------------------------------------------
#
# Admits the new pods of manifests.


def is_new(pod: Pod) -> bool:
    """Whether a pod with defaults is to be created, and has not come from an API server.

    Returns
    -------
    bool
        True for a pod of a manifest without a node.
    """
    meta = pod.metadata
    return _may_be_new(pod) and meta.uid == stable_uid("Pod", meta.namespace, meta.name)


def _may_be_new(pod: Pod) -> bool:
    """Whether a pod is as a new one, but for its UID."""
    meta = pod.metadata
    if pod.spec.node_name or meta.resource_version or meta.deletion_timestamp is not None:
        return False
    return pod.status.phase == "Pending"


class Existing(NamedTuple):
    """What exists in a namespace, when it is asked: with what the usage of quotas begins; and the webhooks
    that nobody answers."""

    pods: Callable[[str], Iterable[Pod]]
    objects: Callable[[str], Iterable[Object]]
    webhooks: SilentWebhooks | None = None

    @classmethod
    def of(cls, cluster: Cluster, before: Mapping[str, Object] | None = None) -> Existing:
        """Return what a cluster has.

        Parameters
        ----------
        before : mapping of str to Object, optional
            Where new objects are among those of the cluster, which do not count, the changed ones as they
            were.
        """
        listed, others = (cluster.pods, cluster.finished), cluster.others
        was = before or {}

        @cache
        def pods() -> Mapping[str, Sequence[Pod]]:
            there = (pod for pod in chain(*listed) if before is None or not is_new(pod))
            return grouped((pod.namespace, pod) for pod in there)

        @cache
        def objects() -> Mapping[str, Sequence[Object]]:
            there = (obj for obj in others if before is None or not _is_new_object(obj))
            return grouped((obj.namespace, was.get(obj.full_name, obj)) for obj in there)

        webhooks = SilentWebhooks.of_cluster(cluster) if before is None else None
        return cls(lambda space: pods().get(space, ()), lambda space: objects().get(space, ()), webhooks)


class NewPods:
    """Admits the new pods of a cluster, in their order.

    Parameters
    ----------
    cluster : Cluster
        With defaults. Its existing pods are the usage that quotas begin with.
    gates : callable
        Returns the feature gates of its API server, with the release.
    before : mapping of str to Object
        By `key_of`, the objects that were changed, as they were.
    texts : mapping of str to bytes, optional
        By `key_of`, the manifests of the change.
    existing : Existing, optional
        By default the objects of the cluster that are not new.
    """

    def __init__(
        self,
        cluster: Cluster,
        gates: Callable[[Cluster], FeatureGates],
        before: Mapping[str, Object],
        texts: Mapping[str, bytes] | None = None,
        existing: Existing | None = None,
    ) -> None:
        self._texts = texts or {}
        self._documents: dict[str, Json] = {}
        self._before = before
        existing = existing or Existing.of(cluster, before)
        self._admission = Admission(
            [*cluster.others, *cluster.namespaces], *existing, gates=cache(lambda: gates(cluster))
        )
        self._admission.user = next(filter(None, map(user_of, cluster.others)), ADMIN)
        if self.has_policies:
            self._admission.documents = self._document
        self.refused: list[RefusedPod] = []
        self.warnings: list[str] = []

    @property
    def has_policies(self) -> bool:
        """Whether there are admission policies, so that objects of all kinds are asked about."""
        return self._admission.policies is not None

    def notes(self) -> Iterator[str]:
        """Yield what policies warn of, and those that could not be asked."""
        yield from self.warnings
        if self._admission.policies is not None:
            yield from self._admission.policies.notes()

    def _document(self, obj: Object) -> Json:
        """Return the manifest of an object of a change, with all of its fields."""
        if isinstance(obj, Pod) and obj.unread is not None and not has_hidden(obj.unread):
            return {}  # it has all of its fields, so pods that are alike are asked about once
        key = key_of(obj)
        if key not in self._documents:
            text = self._texts.get(key)
            value = {} if text is None else msgspec.json.decode(text)
            if key in self._before:
                value = joined(without_admission(obj), value)
            self._documents[key] = value
        return self._documents[key]

    def refused_objects(self, objects: list[Object]) -> Iterator[tuple[Object, InputError]]:
        """Admit the new and changed ones among objects that are no pods.

        Parameters
        ----------
        objects : list of Object
            Its items are replaced by what is stored.

        Yields
        ------
        Object, InputError
            One that is refused, and why.
        """
        for at, obj in enumerate(objects):
            old = self._before.get(key_of(obj)) if self._before else None
            if old is None and not _is_new_object(obj):
                continue
            answer = self._admission.answer(self._admission.request(obj, old))
            if answer.obj is None:
                yield obj, InputError(str(answer.refusal))
            else:
                objects[at] = answer.obj
                self._warn(obj, answer.warnings)

    def _warn(self, obj: Object, texts: Iterable[str]) -> None:
        """Note what policies warn of; notes about workloads have the other warnings."""
        if self.has_policies:
            self.warnings += [f"{obj.full_name}: {text}." for text in texts if text.startswith(WARNED)]

    def admit(self, pods: Iterable[Pod]) -> list[Pod]:
        """Admit the new ones among pods.

        Returns
        -------
        list of Pod
            All but the refused ones, which `refused` gets.
        """
        admitted, admission, has_policies = [], self._admission, self.has_policies
        for pod in pods:
            try:
                concerned = _may_be_new(pod) and admission.concerns(pod) and is_new(pod)
                admitted.append(admission.admit(pod) if concerned else pod)
                if has_policies and is_new(pod):
                    self._warn(pod, admission.warnings(pod))
            except RefusedError as error:
                self.refused.append(RefusedPod(pod, str(error)))
        return admitted


def _is_new_object(obj: Object) -> bool:
    """Whether an object with defaults is to be created, and has not come from an API server."""
    return has_made_up_uid(obj) and not obj.metadata.resource_version
