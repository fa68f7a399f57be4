"""The protocol between an API server and its clients: `ObjectStore` is one such server, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, overload

from msgspec.structs import replace

from moorage._core.base.watch_events import WatchEvent as WatchEvent
from moorage.kube import LabelSelectorMatcher, Object, Pod

from .errors import NotFoundError

if TYPE_CHECKING:
    from moorage.kube.read.python_values import Source

T = TypeVar("T", bound=Object)

PatchType: TypeAlias = Literal["merge", "strategic", "json"]
Patch: TypeAlias = dict[str, Any] | list[dict[str, Any]]
"""JSON values: an object for merge patches, a list of operations for a JSON patch."""
EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
Selector: TypeAlias = str | LabelSelectorMatcher
"""A label selector, in kubectl's string form or ready to match; the empty string selects everything."""
ListResult: TypeAlias = tuple[list[T], str]
"""The objects in the order of their keys, and the resource version at which they were read."""


class Replacement(list[T]):
    """All objects of a kind, in place of events: at first, and whenever some may have been missed.

    Attributes
    ----------
    resource_version : str
        At which an API server listed them; "" where nobody tells.
    """

    resource_version = ""


class Watcher(Protocol[T]):
    """Follows the objects of a kind: first all of them, then events in the order in which they happened."""

    def poll(self) -> list[WatchEvent[T]] | Replacement[T]:
        """Return the available events, or all objects, without waiting.

        Raises
        ------
        ApiError
            The objects could not be listed yet. They are listed again.
        """

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until `poll` may have events or the watch is closed.

        Parameters
        ----------
        timeout : float, optional
            In seconds; without one it waits forever.

        Returns
        -------
        bool
            False when the time is over.
        """

    def close(self) -> None:
        """End the stream; threads in `wait` return."""


class ObjectClient(Protocol):
    """Reads and writes of an API server. `kind` is the struct of a kind, or its name.

    Any method may raise an `ApiError`; the errors of each method are those that a caller can tell apart.
    """

    def list(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> ListResult[T]:
        """List the objects of a kind.

        Parameters
        ----------
        namespace : str
            "" for all namespaces.
        label_selector : str or LabelSelectorMatcher
            "" for all labels.
        field_selector : str
            Terms such as ``spec.nodeName=n``, separated by commas; "" for all objects.

        Returns
        -------
        objects : list of Object
            In the order of their keys, ``namespace/name``.
        resource_version : str
            At which they were read.

        Raises
        ------
        BadRequestError
            A selector is malformed, or names a field that the kind cannot be selected by.
        """

    def follow(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> Watcher[T]:
        """Follow the objects of a kind, which are chosen as by `list`."""

    def get(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Return one object.

        Parameters
        ----------
        namespace : str
            "" for kinds without namespaces.

        Raises
        ------
        NotFoundError
            The object does not exist.
        """

    @overload
    def create(self, obj: T) -> T: ...

    @overload
    def create(self, obj: Source) -> Object: ...

    def create(self, obj: Object | Source) -> Object:
        """Store a new object; return it as stored.

        Parameters
        ----------
        obj : Object, dict, str, bytes, Path, file object, or object of a Kubernetes client
            What is no `Object` is read and validated as by `load`, and gets the API server's defaults.
            Without a name it gets `generateName` and a suffix.

        Raises
        ------
        AlreadyExistsError
            An object of that name exists.
        InvalidObjectError
            It has no name.
        InputError
            It is no `Object`, and `load` would refuse it.
        """

    def update(self, obj: T) -> T:
        """Replace an object, its status included; return it as stored.

        UID, creation time and the fields about a deletion stay as they are. An object that is being deleted
        is removed with its last finalizer.

        Parameters
        ----------
        obj : Object
            Its UID and its resource version, where it has them, are preconditions.

        Raises
        ------
        NotFoundError
            The object does not exist.
        ConflictError
            The stored object has another UID or another resource version.
        InvalidObjectError
            It adds finalizers to an object that is being deleted.
        """

    def patch(
        self,
        kind: type[T] | str,
        name: str,
        namespace: str,
        patch: Patch,
        *,
        type: PatchType = "merge",
        subresource: str = "",
    ) -> T:
        """Change parts of an object; return it as stored.

        Parameters
        ----------
        patch : dict or list of dict
            JSON values with the field names of the API. A ``resourceVersion`` is a precondition; a ``uid``
            has to be the object's.
        type : {"merge", "strategic", "json"}
            JSON merge patch (RFC 7386), strategic merge patch (see `strategic_merge`), or JSON patch (RFC
            6902).
        subresource : {"", "status"}
            "status" changes the status alone, "" everything else.

        Raises
        ------
        NotFoundError
            The object does not exist, or its kind has no such subresource.
        ConflictError, InvalidObjectError
            As for `update`; also where the patch has another UID or kind, does not fit the object, or makes
            of it what does not fit the kind.
        BadRequestError
            The patch is malformed, or changes the name or the namespace.
        """

    def delete(
        self,
        kind: type[T] | str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> T:
        """Remove an object.

        Parameters
        ----------
        uid, resource_version : str
            Preconditions; "" for none.
        grace_period_seconds : int, optional
            By default the server's choice.

        Returns
        -------
        Object
            The last state, or the state in which the object waits for finalizers or for the end of its grace
            period.

        Raises
        ------
        NotFoundError
            The object does not exist.
        ConflictError
            A precondition is not met.
        """

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to a node, as the subresource ``pods/binding`` does.

        Parameters
        ----------
        pod : Pod
            Its name, namespace and UID count.
        node : str
            The node's name.

        Raises
        ------
        NotFoundError
            The pod does not exist.
        ConflictError
            The pod has another UID, is bound or gated, or is being deleted.
        InvalidObjectError
            `node` is empty.
        """


class Reader(Protocol):
    """Whatever returns single objects, as an `ObjectClient` does."""

    def get(self, kind: type[T], name: str, namespace: str = "") -> T: ...


def find_object(client: Reader, kind: type[T], name: str, namespace: str = "") -> T | None:
    """Return one object; None if it does not exist. Parameters as for `ObjectClient.get`."""
    try:
        return client.get(kind, name, namespace)
    except NotFoundError:
        return None


def overwrite(client: ObjectClient, obj: T, **metadata: Any) -> T:
    """Update an object, whatever version of it is stored, with some fields of its metadata changed."""
    return client.update(replace(obj, metadata=replace(obj.metadata, resource_version="", **metadata)))
