"""A request to the API server, and its answer: what each step of the chain of admission gets and gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from moorage.errors import MoorageError

from ..model.meta import Object, resource
from ..plain import joined, plain

Json = dict[str, Any]

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class UserInfo(NamedTuple):
    """Who makes a request."""

    username: str = "kubernetes-admin"
    groups: tuple[str, ...] = ("kubeadm:cluster-admins", "system:authenticated")


ADMIN = UserInfo()


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
    """

    obj: Object
    operation: Operation = "CREATE"
    old: Object | None = None
    user: UserInfo = ADMIN
    subresource: str = ""
    field_validation: str = "strict"
    is_dry_run: bool = False
    document: Json = field(default_factory=dict)
    sent: Object | None = None

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
        return full_value(self.obj, self.document)

    @cached_property
    def old_value(self) -> Json | None:
        """What is stored, likewise; None for a creation."""
        return None if self.old is None else full_value(self.old, {})


def full_value(obj: Object, document: Json) -> Json:
    """Return an object as a JSON value with the fields of a document that it lacks, and their defaults."""
    from .stored.version_defaults import with_version_defaults  # only policies look at whole objects

    read: Any = plain(obj) | {"apiVersion": obj.api_version, "kind": obj.kind}
    if not document and (unread := getattr(obj, "unread", None)):
        document = {"spec": msgspec.json.decode(unread)}
    value: Json = joined(read, document)
    return with_version_defaults(value, obj.kind, obj.api_version)


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
    """The API server would refuse a request; the message is its text.

    Attributes
    ----------
    code : int
    reason : str
    causes : tuple of StatusCause
    """

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

    def mutate(self, request: AdmissionRequest) -> Object:
        """Return the object as the step changes it.

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


def mutated(request: AdmissionRequest, plugins: Iterable[AdmissionPlugin]) -> Object:
    """Return an object as plugins change it, one after the other.

    Raises
    ------
    NotAdmittedError
        One of them refuses it.
    """
    for plugin in plugins:
        request = request.changed(plugin.mutate(request))
    return request.obj
