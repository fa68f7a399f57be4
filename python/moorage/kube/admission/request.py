"""A request to the API server, and its answer: what each step of the chain of admission gets and gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from moorage.errors import MoorageError
from moorage.lazy import NamedTuple

from ..model.meta import Object, resource
from ..model.pod import Pod
from ..model.policy import AdmissionPlugins
from ..plain import joined, plain
from ..read.object_defaults import missing_tolerations
from ..workloads.ownership import has_made_up_uid

if TYPE_CHECKING:  # rules of fields are asked of changes alone
    from ..field_errors import Json

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class UserInfo(NamedTuple):
    """Who makes a request."""

    username: str = "kubernetes-admin"
    groups: tuple[str, ...] = ("kubeadm:cluster-admins", "system:authenticated")


ADMIN, SCHEDULER = UserInfo(), UserInfo("system:kube-scheduler", ("system:authenticated",))
_CONTROLLERS = {
    "Deployment": "deployment-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replication-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "Job": "job-controller",
    "CronJob": "cronjob-controller",
}
_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")


def service_account(owner: str) -> UserInfo:
    """Return who makes the objects of a workload: the account of the controller of its kind."""
    account = _CONTROLLERS.get(owner)
    return ADMIN if account is None else controller_account(account)


def controller_account(name: str) -> UserInfo:
    """Return the account of a controller."""
    return UserInfo(f"system:serviceaccount:kube-system:{name}", _ACCOUNTS)


POD_COLLECTOR, TAINT_EVICTION, COLLECTOR = map(
    controller_account, ("pod-garbage-collector", "node-controller", "generic-garbage-collector")
)
"""Who deletes pods of nodes that are gone, pods that do not tolerate a taint, and what has no owner left."""


def kubelet_of(node: str) -> UserInfo:
    """Return the account of the kubelet of a node."""
    return UserInfo(f"system:node:{node}", ("system:nodes", "system:authenticated"))


def user_of(obj: Object) -> UserInfo | None:
    """Return who makes a change, if an object tells it."""
    if not isinstance(obj, AdmissionPlugins) or not obj.user:
        return None
    return UserInfo(obj.user, (*obj.groups, "system:authenticated"))


def creator_of(obj: Object) -> UserInfo:
    """Return who makes an object that a controller owns."""
    owner = obj.metadata.controller()
    return service_account("" if owner is None else owner.kind)


@dataclass(frozen=True)
class AdmissionRequest:
    """A request for one object.

    Attributes
    ----------
    obj : Object
        As it would be stored: with defaults, and what the plugins before have changed.
    old : Object or None
        What is stored; None for a creation.
    document : dict
        The manifest as it was sent. Of it count the fields that `obj` lacks, as scheduling reads none of
        them.
    sent : Object or None
        The object before any step has changed it; None where none has.
    subresource : str
        Of the object; then `sent_to` and `was` are what the request is about, and of the object only its
        kind and its name count.
    sent_to, was : dict or None
        The JSON value that is sent to the subresource, and the one that it replaces.
    """

    obj: Object
    operation: Operation = "CREATE"
    old: Object | None = None
    user: UserInfo = ADMIN
    document: Json = field(default_factory=dict)
    sent: Object | None = None
    subresource: str = ""
    sent_to: Json | None = None
    was: Json | None = None

    @property
    def is_decided_only(self) -> bool:
        """Whether policies and webhooks alone look at it: it is a deletion, or for a subresource."""
        return self.operation == "DELETE" or bool(self.subresource)

    def changed(self, obj: Object) -> AdmissionRequest:
        """Return the request with an object as a step has changed it."""
        return self if obj is self.obj else replace(self, obj=obj, sent=self.sent or self.obj)

    @property
    def namespace(self) -> str:
        """The namespace of the object; "" of one without."""
        return self.obj.namespace

    @property
    def name(self) -> str:
        """The name of the object, or the prefix of it."""
        return self.obj.name or self.obj.metadata.generate_name

    @property
    def resource(self) -> str:
        """The resource with its group, as texts name it: ``pods``, ``deployments.apps``."""
        return resource(type(self.obj))

    @cached_property
    def value(self) -> Json:
        """The object as a JSON value, also with the fields that are not read, with their defaults."""
        return full_value(self.obj, self.document) if self.sent_to is None else self.sent_to

    @cached_property
    def old_value(self) -> Json | None:
        """What is stored, likewise; None for a creation."""
        return self.was if self.old is None else full_value(self.old, {})


def deletion(obj: Object, user: UserInfo = ADMIN) -> AdmissionRequest:
    """Return the request that deletes an object."""
    return AdmissionRequest(obj, "DELETE", user=user)


def binding(pod: Pod, node: str) -> AdmissionRequest:
    """Return the request by which kube-scheduler binds a pod."""
    target = {"kind": "Node", "name": node}
    value = _head("v1", "Binding", pod) | {"target": target}
    return AdmissionRequest(pod, user=SCHEDULER, subresource="binding", sent_to=value)


def eviction(pod: Pod) -> AdmissionRequest:
    """Return the request by which kubectl evicts a pod."""
    return AdmissionRequest(pod, subresource="eviction", sent_to=_head("policy/v1", "Eviction", pod))


def scaling(obj: Any, replicas: int, user: UserInfo = ADMIN) -> AdmissionRequest:
    """Return the request that gives a workload another number of replicas."""
    head, was = _head("autoscaling/v1", "Scale", obj), 1 if obj.spec.replicas is None else obj.spec.replicas
    values = [head | {"spec": {"replicas": number}} for number in (replicas, was)]
    return AdmissionRequest(obj, "UPDATE", None, user, subresource="scale", sent_to=values[0], was=values[1])


def _head(api_version: str, kind: str, obj: Object) -> Json:
    meta = {"name": obj.name, "namespace": obj.namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta}


def full_value(obj: Object, document: Json) -> Json:
    """Return an object as a JSON value with all of its fields, and the defaults of its version.

    Parameters
    ----------
    document : dict
        The object as it was sent. Of a pod count the fields that `obj` lacks; else it is the object.
    """
    from .stored.version_defaults import with_version_defaults  # only policies look at whole objects

    if isinstance(obj, Pod):
        unread = str(obj.unread or "")
        given = document or ({"spec": msgspec.json.decode(unread)} if unread else {})
        value: Json = joined(plain(obj), given)
    else:
        value = document | {"metadata": document.get("metadata", {}) | plain(obj.metadata)}
        value = value if document else without_admission(obj)
    kinds = {"apiVersion": obj.api_version, "kind": obj.kind}
    value = with_version_defaults(value | kinds, obj.kind, obj.api_version)
    if has_made_up_uid(obj):
        value["metadata"].pop("uid", None)
    return value


_TEMPLATES = (("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))
_OF_PODS = ("priority", "preemptionPolicy")


def without_admission(obj: Object) -> Json:
    """Return an object as a JSON value; its template is without what only pods get, and is kept in it."""
    value: Json = plain(obj)
    for path in _TEMPLATES:
        spec: Any = value
        for name in path:
            spec = spec.get(name) if isinstance(spec, dict) else None
        if isinstance(spec, dict):
            for name in _OF_PODS:
                spec.pop(name, None)
            added = [plain(toleration) for toleration in missing_tolerations(())]
            own = [item for item in spec.pop("tolerations", ()) if item not in added]
            if own:
                spec["tolerations"] = own
    return value


class StatusCause(NamedTuple):
    """A part of what is wrong."""

    reason: str
    field: str
    message: str


class NotAdmittedError(Exception):
    """What a step of the chain says against an object.

    Attributes
    ----------
    is_whole : bool
        Whether the text stands by itself; else the resource and the name come before it.
    """

    def __init__(
        self,
        text: str,
        code: int = 403,
        reason: str = "Forbidden",
        causes: Sequence[StatusCause] = (),
        is_whole: bool = False,
    ) -> None:
        super().__init__(text)
        self.code, self.reason, self.causes, self.is_whole = code, reason, tuple(causes), is_whole


class RefusedError(MoorageError):
    """The API server would refuse a request; the message is its text."""

    def __init__(
        self, message: str, code: int = 403, reason: str = "Forbidden", causes: Sequence[StatusCause] = ()
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.causes = code, reason, tuple(causes)


def refused(request: AdmissionRequest, error: NotAdmittedError) -> RefusedError:
    """Return the answer of a server that does not admit an object."""
    head = "" if error.is_whole else f'{request.resource} "{request.name}" is forbidden: '
    return RefusedError(f"{head}{error}", error.code, error.reason, error.causes)


class Answer(NamedTuple):
    """The answer to a request: the object as it is stored, or why it is refused; and warnings."""

    obj: Object | None
    refusal: RefusedError | None
    warnings: tuple[str, ...]


class AdmissionPlugin:
    """A step of the chain. The steps before validation may change the object, those after it only refuse.

    Attributes
    ----------
    name : str
        By which an API server switches it on or off; "" of one that is always on.
    """

    name: ClassVar[str] = ""

    def mark(self, request: AdmissionRequest) -> Any:
        """Return what the step reads of a pod beside its namespace and spec, as a value that can be hashed:
        pods that are alike in both are asked about once."""
        return None

    def mutate(self, request: AdmissionRequest) -> Object | AdmissionRequest:
        """Return the object as the step changes it; the request with it where fields change that scheduling
        does not read.

        Raises
        ------
        NotAdmittedError
            The step refuses it.
        """
        return request.obj

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Return what the step warns of, after validation.

        Raises
        ------
        NotAdmittedError
            The step refuses it.
        """
        return ()


class Decider(AdmissionPlugin):
    """A step that asks the policies or the webhooks of a cluster, also about deletions and subresources."""


class NewPodPlugin(AdmissionPlugin):
    """A step that looks at new pods alone."""

    def mutate(self, request: AdmissionRequest) -> Object:
        """Return a new pod as the step changes it, and other objects as they are."""
        if isinstance(request.obj, Pod) and request.operation == "CREATE":
            return self.admit(request.obj)
        return request.obj

    def admit(self, pod: Pod) -> Pod:
        """Return a new pod as the step changes it.

        Raises
        ------
        NotAdmittedError
            The step refuses it.
        """
        raise NotImplementedError


def mutated(request: AdmissionRequest, plugins: Iterable[AdmissionPlugin]) -> AdmissionRequest:
    """Return a request with the object as plugins change it, one after the other.

    Raises
    ------
    NotAdmittedError
        One of them refuses it.
    """
    for plugin in plugins:
        result = plugin.mutate(request)
        request = result if isinstance(result, AdmissionRequest) else request.changed(result)
    return request
