"""The admission plugins of the API server that change or refuse new pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from moorage.errors import InputError, MoorageError

from ..model.autoscaling import VerticalPodAutoscaler
from ..model.cluster import Cluster, RefusedPod
from ..model.meta import Object, resource
from ..model.node import Namespace
from ..model.pod import Pod, PodSpec
from ..model.policy import ResourceQuota
from ..releases import DEFAULT
from ..workloads.ownership import has_made_up_uid, stable_uid
from .pod_requests import NotAdmittedError, Quantities, violations, with_recommendation
from .policies import Policies
from .resource_quotas import QuotaUsage, counts_objects, usage, usage_of_object, violations_of_object
from .secured_namespaces import SecuredNamespaces, SecurityMark
from .siblings import Siblings, TemplateDifference, with_difference
from .validate_object import check_pod_spec

TERMINATING = "unable to create new content in namespace {} because it is being terminated"


class RefusedError(MoorageError):
    """The API server would refuse a new pod; the message is its text."""


class _Template(NamedTuple):
    """The outcome of admission for a spec, but for quotas: `refusal` is of a plugin, `invalid` of the rules
    for the admitted spec."""

    original: PodSpec
    spec: PodSpec
    labels: Mapping[str, str]
    refusal: str
    invalid: str
    usage: Quantities


class Admission:
    """Admits new pods as kube-apiserver v1.36 does with its default plugins.

    - **NamespaceLifecycle:** nothing is created in a namespace that is being deleted.
    - **LimitRanger:** containers get default requests and limits; minimum, maximum and ratio are checked.
    - **Priority:** the class of the pod must exist. Its value and preemption policy are set with the other
      defaults (`default_pod_spec`), as are the tolerations of DefaultTolerationSeconds.
    - **RuntimeClass:** overhead, node selector and tolerations of the class.
    - **Distributions:** what the input shows that other plugins add (`Additions`).
    - **PodSecurity:** what the labels of the namespace forbid, in the pod as its template or file has it.
    - **ResourceQuota:** the usage of the pods so far and of the new one must not exceed a quota. Other
      objects count by number, claims by their storage and class, too.

    Between the plugins that change pods and those that check them come the webhooks: a new pod of a workload
    differs from its template as its siblings do, and gets the requests that a VerticalPodAutoscaler
    recommends.

    The parts of the spec that results must not contradict each other (see `check_pod_spec`): a default limit
    may be below a request.

    A pod with a value in ``spec.priority`` keeps it, also if the API server would compute another one. Other
    default plugins change nothing that scheduling reads.

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
    siblings : Siblings, optional
        How running pods differ from their templates; by default nothing is known of that.
    release : callable, optional
        Returns the release of the API server.
    """

    def __init__(
        self,
        policies: Iterable[Object],
        pods: Callable[[str], Iterable[Pod]],
        objects: Callable[[str], Iterable[Object]] = lambda _: (),
        siblings: Siblings | None = None,
        release: Callable[[], str] = lambda: DEFAULT,
    ) -> None:
        listed = list(policies)
        self.security = SecuredNamespaces(listed, release)
        self.siblings = siblings or Siblings()
        self._policies = Policies(listed)
        self.additions = self._policies.additions
        self._quotas: defaultdict[str, list[ResourceQuota]] = defaultdict(list)
        self._terminating: set[str] = set()
        self._pods, self._objects = pods, objects
        self._usages: dict[str, list[QuotaUsage]] = {}
        self._templates: dict[tuple[str, int, int, int, SecurityMark | None], _Template] = {}
        for obj in listed:
            if isinstance(obj, ResourceQuota):
                self._quotas[obj.namespace].append(obj)
            elif isinstance(obj, Namespace) and obj.metadata.deletion_timestamp is not None:
                self._terminating.add(obj.name)

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
        if template.invalid:
            raise RefusedError(f'Pod "{_name(pod)}" is invalid: {template.invalid}')
        if template.refusal:
            raise _refused(pod, template.refusal)
        if template.labels:
            labels = {**pod.metadata.labels, **template.labels}
            pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        return pod if template.spec is pod.spec else replace(pod, spec=template.spec)

    def admit_many(self, pod: Pod, n: int) -> tuple[Pod, int]:
        """Admit new pods that differ in their names only, up to the first that is refused.

        Parameters
        ----------
        pod : Pod
            One of them.
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
                n = self._charge(admitted, template, n)
        except NotAdmittedError as error:
            raise _refused(pod, str(error)) from None
        return admitted, n

    def check(self, pod: Pod) -> None:
        """Check that a new pod is admitted, and charge no quota for it.

        Raises
        ------
        RefusedError
            The pod is refused.
        """
        admitted = self.admit_uncharged(pod)
        try:
            self._checked(admitted, self._template(pod))
        except NotAdmittedError as error:
            raise _refused(pod, str(error)) from None

    def admit_object(self, obj: Object) -> None:
        """Admit a new object that is no pod: limit ranges of claims, and quotas that count objects.

        Raises
        ------
        RefusedError
            The object is refused.
        """
        limit_ranges = self._policies.limit_ranges.get(obj.namespace, ())
        try:
            self._check_namespace(obj)
            for limit_range in limit_ranges:
                if texts := list(violations_of_object(obj, limit_range)):
                    raise NotAdmittedError(_joined(texts))
            if obj.namespace in self._quotas:
                used = usage_of_object(obj)
                matching = [quota for quota in self.quotas_of(obj.namespace) if quota.counts_object(used)]
                for quota in matching:
                    quota.check(used)
                for quota in matching:
                    quota.charge(used)
        except NotAdmittedError as error:
            name = obj.name or obj.metadata.generate_name
            raise RefusedError(f'{resource(type(obj))} "{name}" is forbidden: {error}') from None

    def _check_namespace(self, obj: Object) -> None:
        if obj.namespace in self._terminating:
            raise NotAdmittedError(TERMINATING.format(obj.namespace))

    def quotas_of(self, namespace: str) -> list[QuotaUsage]:
        """Return the quotas of a namespace with their usage."""
        if namespace not in self._usages:
            pods, objects = list(self._pods(namespace)), list[Object]()
            if any(
                map(counts_objects, chain.from_iterable(quota.spec.hard for quota in self._quotas[namespace]))
            ):
                objects += self._objects(namespace)
            self._usages[namespace] = [QuotaUsage(quota, pods, objects) for quota in self._quotas[namespace]]
        return self._usages[namespace]

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod would be changed, refused or charged to a quota."""
        template = self._template(pod)
        is_refused = bool(template.refusal or template.invalid)
        changes = template.spec is not pod.spec or bool(template.labels)
        return is_refused or changes or pod.namespace in self._quotas

    def _template(self, pod: Pod) -> _Template:
        difference, autoscaler = self.siblings.difference_for(pod), self._policies.autoscaler_of(pod)
        key = pod.namespace, id(pod.spec), id(difference), id(autoscaler), self.security.mark(pod)
        template = self._templates.get(key)
        if template is None or template.original is not pod.spec:
            template = self._templates[key] = self._admit_spec(pod, difference, autoscaler)
        return template

    def _admit_spec(
        self, pod: Pod, difference: TemplateDifference | None, autoscaler: VerticalPodAutoscaler | None
    ) -> _Template:
        """Run all plugins but ResourceQuota, and check what they made of the spec."""
        original, limit_ranges = pod.spec, self._policies.limit_ranges.get(pod.namespace, ())
        labels = {} if difference is None else difference.labels
        try:
            self._check_namespace(pod)
            spec, difference = self._completed(pod, difference)
            if autoscaler is not None:
                sized = with_recommendation(spec, autoscaler, limit_ranges)
                autoscaler, spec = (None if sized is spec else autoscaler), sized
            if difference is not None or autoscaler is not None:
                self.siblings.note(pod, difference, "" if autoscaler is None else autoscaler.name)
            check_pod_spec(spec)
            changed = replace(pod, spec=spec)
            for limit_range in limit_ranges:
                if texts := list(dict.fromkeys(violations(changed, limit_range))):
                    raise NotAdmittedError(_joined(texts))
            if text := self.security.refusal(pod):
                raise NotAdmittedError(text)
        except NotAdmittedError as error:
            return _Template(original, original, {}, str(error), "", {})
        except InputError as error:
            return _Template(original, original, {}, "", str(error.located(path="spec")), {})
        spec = original if spec == original else spec
        used = usage(changed) if pod.namespace in self._quotas else {}
        return _Template(original, spec, labels, "", "", used)

    def _completed(
        self, pod: Pod, difference: TemplateDifference | None
    ) -> tuple[PodSpec, TemplateDifference | None]:
        """Return a spec with what plugins and webhooks set, and what of a difference it has got.

        The plugins run again after the webhooks.
        """
        completed = self._policies.completed
        if difference is None:
            return completed(pod), None
        before = completed(replace(pod, spec=replace(pod.spec, **difference.classes)))
        changed = with_difference(difference.before, difference.after, before)
        spec = completed(replace(pod, spec=changed))
        return spec, difference.seen_in(pod, before, spec)

    def _charge(self, admitted: Pod, template: _Template, n: int) -> int:
        """Add the usage of `n` pods, or of as many as there is room for, to the quotas that count it."""
        used, matching = template.usage, self._checked(admitted, template)
        for quota in matching if n > 1 else ():
            n = quota.room(used, n)
        for quota in matching:
            quota.charge(used, n)
        return n

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


def _name(pod: Pod) -> str:
    return pod.name or pod.metadata.generate_name


def _refused(pod: Pod, why: str) -> RefusedError:
    return RefusedError(f'pods "{_name(pod)}" is forbidden: {why}')


def _joined(texts: list[str]) -> str:
    """Return several errors as one, as apimachinery's Aggregate does."""
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


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


class NewPods:
    """Admits the new pods of a cluster, in their order.

    Parameters
    ----------
    cluster : Cluster
        With defaults. Its existing pods are the usage that quotas begin with.
    release : callable
        Returns the release of its API server.
    """

    def __init__(self, cluster: Cluster, release: Callable[[Cluster], str]) -> None:
        self._existing: dict[str, list[Pod]] | None = None
        self._pods = cluster.pods
        self._finished = cluster.finished
        self._others = cluster.others
        self._admission = Admission(
            [*cluster.others, *cluster.namespaces],
            self._of_namespace,
            self._objects_of,
            release=lambda: release(cluster),
        )
        self.refused: list[RefusedPod] = []

    def _of_namespace(self, namespace: str) -> Iterable[Pod]:
        if self._existing is None:
            self._existing = defaultdict(list)
            for pod in (*self._pods, *self._finished):
                if not is_new(pod):
                    self._existing[pod.namespace].append(pod)
        return self._existing[namespace]

    def _objects_of(self, namespace: str) -> Iterable[Object]:
        return [obj for obj in self._others if obj.namespace == namespace and not _is_new_object(obj)]

    def refused_objects(self) -> Iterator[tuple[Object, InputError]]:
        """Admit the new ones among objects that are no pods.

        Yields
        ------
        Object, InputError
            One that a quota or a limit range refuses, and why.
        """
        for obj in self._others:
            if _is_new_object(obj):
                try:
                    self._admission.admit_object(obj)
                except RefusedError as error:
                    yield obj, InputError(str(error))

    def admit(self, pods: Iterable[Pod]) -> list[Pod]:
        """Admit the new ones among pods.

        Returns
        -------
        list of Pod
            All but the refused ones, which `refused` gets.
        """
        admitted, admission = [], self._admission
        for pod in pods:
            try:
                concerned = _may_be_new(pod) and admission.concerns(pod) and is_new(pod)
                admitted.append(admission.admit(pod) if concerned else pod)
            except RefusedError as error:
                self.refused.append(RefusedPod(pod, str(error)))
        return admitted


def _is_new_object(obj: Object) -> bool:
    """Whether an object with defaults is to be created, and has not come from an API server."""
    return has_made_up_uid(obj) and not obj.metadata.resource_version
