"""Lists and watches of one kind: under which path it is served, and how its objects are read from bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from moorage.errors import InputError
from moorage.kube import Node, Object, Pod
from moorage.kube.apiserver.decode import UNREADABLE, Head, decode_kind
from moorage.kube.model.meta import Struct, plural
from moorage.kube.read.parts_reader import PartsReader
from moorage.lazy import NamedTuple
from moorage.store.errors import (
    ApiError,
    NotFoundError,
    ResourceExpiredError,
    ServerError,
    UnreachableError,
    is_namespaced,
    structs,
)
from moorage.store.pod_binding import why_unreadable
from moorage.store.protocol import WatchEvent

from .connection import Connection, StatusAnswer, Stream, error_of, read_answer

# ---- discovery ---------------------------------------------------------------------------------------------


class _Served(msgspec.Struct):
    name: str = ""
    version: str = ""


class _DiscoveryAnswer(msgspec.Struct):
    """What is read of an APIGroup, which has versions, and of an APIResourceList."""

    kind: str
    versions: list[_Served] = []
    resources: list[_Served] = []


_ANSWER = msgspec.json.Decoder(_DiscoveryAnswer)


class Endpoint(msgspec.Struct, frozen=True):
    """Where the objects of a kind are.

    Attributes
    ----------
    resource : str
        Such as ``pods``.
    converts : bool
        Whether the version is another than the struct's.
    """

    api_version: str
    resource: str
    is_namespaced: bool
    converts: bool = False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, of those of a namespace, of one object, or of a subresource."""
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if namespace and self.is_namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.resource, *filter(None, (name, subresource))])


class Discovery:
    """Finds the endpoints of kinds. Those of the core cost no request, another kind one in most cases."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._endpoints: dict[type[Object], Endpoint] = {}

    def endpoint(self, struct: type[Object]) -> Endpoint | None:
        """Return the endpoint of a kind, as it was last found; None where the server does not serve it."""
        return self._endpoints.get(struct) or self.find(struct)

    def find(self, struct: type[Object]) -> Endpoint | None:
        """Ask the server for the endpoint of a kind.

        Returns
        -------
        Endpoint or None
            None for a kind that the server does not serve, in no version.
        """
        wanted = struct().api_version
        for api_version in self._versions(wanted):
            if "/" not in wanted or any(
                served.name == plural(struct) for served in self._ask(f"/apis/{api_version}").resources
            ):
                endpoint = Endpoint(api_version, plural(struct), is_namespaced(struct), api_version != wanted)
                self._endpoints[struct] = endpoint
                return endpoint
        return None

    def _versions(self, wanted: str) -> Iterator[str]:
        """Yield a version, then the others of its group."""
        yield wanted
        group = wanted.rpartition("/")[0]
        for served in self._ask(f"/apis/{group}").versions:
            if f"{group}/{served.version}" != wanted:
                yield f"{group}/{served.version}"

    def _ask(self, path: str) -> _DiscoveryAnswer:
        """Return what the server says of a group or a version; nothing of one that it does not serve."""
        try:
            return read_answer(_ANSWER, self._connection.request("GET", path))
        except NotFoundError:
            return _DiscoveryAnswer("")


# ---- wire format -------------------------------------------------------------------------------------------
#
# A first use of a type by several threads at once crashes the decoder of msgspec 0.22 (it fills tables of the
# type without a lock). Therefore the decoders of all kinds are made when this module is imported.

T = TypeVar("T", bound=Object)


class _ListMeta(Struct, frozen=True):
    """Metadata of a list (meta/v1)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(Struct, frozen=True):
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] | None = ()


class ListPage(NamedTuple, Generic[T]):
    """A page of a list: the resource version, and the token of the next page, "" without one."""

    objects: tuple[T, ...]
    version: str
    next: str


class RawEvent(msgspec.Struct):
    """An event of a watch. Its object depends on its type: that of a bookmark is no valid object."""

    type: str
    object: msgspec.Raw


class Bookmark(NamedTuple):
    """A resource version that a watch has reached.

    Attributes
    ----------
    ends_list : bool
        Whether all objects that existed when the watch began have been sent.
    """

    version: str
    ends_list: bool


class _BookmarkMeta(Struct, frozen=True):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Bookmark(Struct, frozen=True):
    kind: str
    metadata: _BookmarkMeta


_EVENT = msgspec.json.Decoder(RawEvent)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_LIST = msgspec.json.Decoder(_List)
_STATUS = msgspec.json.Decoder(StatusAnswer)
_OBJECTS: dict[type[Object], msgspec.json.Decoder[Any]] = {
    struct: msgspec.json.Decoder(struct) for struct in structs()
}
_PARTS: dict[type[Object], PartsReader] = {Node: PartsReader(), Pod: PartsReader()}
"""What decodes the kinds of which there are many objects that have much in common."""
_DEFAULTS: dict[type[Object], Object] = {struct: struct() for struct in _OBJECTS}
_HEAD = msgspec.json.Decoder(Head)
_WITH_TEMPLATE = {
    struct
    for struct, default in _DEFAULTS.items()
    if "template" in getattr(getattr(default, "spec", None), "__struct_fields__", ())
}
"""Kinds with a pod template, whose fields that scheduling does not read are kept (see `decode_as`)."""


def decode_object_of(struct: type[T], body: bytes | msgspec.Raw, *, converts: bool = False) -> T:
    """Decode one object, and check it.

    Parameters
    ----------
    converts : bool, optional
        Whether it may be of another version than the struct's.

    Raises
    ------
    ServerError
        It is no object of this kind, or has not all that a stored object has.
    """
    if not converts and struct not in _WITH_TEMPLATE:
        reader = _PARTS.get(struct)
        parts = None if reader is None else reader.split(body)
        if reader is not None and parts is not None:
            shared = reader.read(parts, struct.__name__)
            if shared is not None:
                return _checked(struct, shared)
        try:
            return _checked(struct, _OBJECTS[struct].decode(body))
        except UNREADABLE:
            pass  # nulls, or an error that is explained below
    try:
        head = _HEAD.decode(body)
        read: Any = decode_kind(body if isinstance(body, msgspec.Raw) else msgspec.Raw(body), struct.__name__)
    except (InputError, *UNREADABLE) as error:
        raise ServerError(f"a {struct.__name__} of the API server cannot be read: {error}") from None
    version = struct().api_version if converts or not head.api_version else head.api_version
    kind = head.kind or struct.__name__
    return _checked(struct, msgspec.structs.replace(read, kind=kind, api_version=version))


def _checked(struct: type[T], obj: Any) -> T:
    """Return an object that was read; ServerError if it is not one that an API server has stored.

    An object without a kind is one of the kind that was asked for, as in lists.
    """
    meta, default = obj.metadata, _DEFAULTS[struct]
    if obj.kind != default.kind or obj.api_version != default.api_version:
        wrong = f"{obj.kind} ({obj.api_version})"
    elif not (meta.name and meta.uid and meta.resource_version):
        wrong = f"{obj.key!r}, which lacks a name, a UID or a resource version"
    elif bool(meta.namespace) != is_namespaced(struct):
        wrong = f"{obj.key!r}, whose namespace is {meta.namespace!r}"
    elif why := why_unreadable(obj):
        wrong = f"{obj.key!r}, whose {why}"
    else:
        checked: T = obj
        return checked
    raise ServerError(f"the API server has sent, as a {struct.__name__}, {wrong}")


def decode_list(struct: type[T], body: bytes, *, converts: bool = False) -> ListPage[T]:
    """Decode a page of a list, and check its objects.

    Parameters
    ----------
    struct : type
        The kind of its items.
    converts : bool, optional
        See `decode_object_of`.

    Raises
    ------
    ServerError
        It is no list of this kind.
    """
    page = read_answer(_LIST, body, "a list")
    if page.kind != f"{struct.__name__}List" or not page.metadata.resource_version:
        raise ServerError(f"the API server has sent {page.kind!r} as a list of {struct.__name__}")
    objects = tuple([decode_object_of(struct, item, converts=converts) for item in page.items or ()])
    return ListPage(objects, page.metadata.resource_version, page.metadata.continue_)


def decode_event(line: bytes) -> RawEvent:
    """Decode an event of a watch, without its object.

    Raises
    ------
    ServerError
        It is no event.
    """
    return read_answer(_EVENT, line, "an event")


def decode_bookmark(struct: type[Object], event: RawEvent) -> Bookmark:
    """Return what a bookmark says.

    Raises
    ------
    ServerError
        It is none of this kind.
    """
    bookmark = read_answer(_BOOKMARK, event.object, "a bookmark")
    meta = bookmark.metadata
    if bookmark.kind != struct.__name__ or not meta.resource_version:
        raise ServerError(f"the API server has sent a bookmark of {bookmark.kind!r} for {struct.__name__}")
    return Bookmark(
        meta.resource_version, (meta.annotations or {}).get("k8s.io/initial-events-end") == "true"
    )


def decode_status(event: RawEvent) -> StatusAnswer:
    """Return the object of an event of type ERROR.

    Raises
    ------
    ServerError
        It is none.
    """
    return read_answer(_STATUS, event.object)


def is_status(body: bytes) -> bool:
    """Whether an answer is a Status, as of subresources and of deletions.

    Raises
    ------
    ServerError
        It is no JSON.
    """
    return read_answer(_STATUS, body).kind == "Status"


# ---- collection --------------------------------------------------------------------------------------------

Event: TypeAlias = WatchEvent[T] | Bookmark

PAGE = 500
"""Objects of a page of a list, as client-go asks for them."""
LIST_TIMEOUT = "300"
"""Seconds that a list may take as a stream."""
_TYPES: Any = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Collection(Generic[T]):
    """The objects of a kind that a path and selectors choose.

    Parameters
    ----------
    namespace : str
        "" for all.
    heard : callable
        Called whenever the server has sent something.
    """

    def __init__(
        self,
        connection: Connection,
        struct: type[T],
        endpoint: Endpoint,
        namespace: str,
        selectors: Mapping[str, str],
        heard: Callable[[], object] = lambda: None,
    ) -> None:
        self._connection, self._struct, self._endpoint = connection, struct, endpoint
        self._path, self._selectors, self._heard = endpoint.path(namespace), selectors, heard
        self._stream: Stream | None = None
        self._is_interrupted = False

    def list(self) -> tuple[list[T], str]:
        """Return the objects, not older than the call, and their resource version.

        They are read as a stream (KEP-3157), and page by page if that fails for whatever reason.

        Raises
        ------
        ApiError
        """
        try:
            objects, version = self._streamed()
        except ApiError:
            objects, version = self._paged()
        return sorted(objects, key=attrgetter("key")), version

    def watch(self, version: str, seconds: int) -> AbstractContextManager[Iterator[Event[T]]]:
        """Open a stream of the events after a resource version.

        Parameters
        ----------
        seconds : int
            After which the server is asked to end it.

        Yields
        ------
        iterator of WatchEvent or Bookmark
            Ends with the stream. It raises ApiError if the stream breaks off, or an event is wrong.
        """
        return self._open({"resourceVersion": version, "timeoutSeconds": str(seconds)})

    def interrupt(self) -> None:
        """End what is being read; may be called by another thread, whose reading then fails."""
        self._is_interrupted = True
        if (stream := self._stream) is not None:
            stream.interrupt()

    def _streamed(self) -> tuple[Iterable[T], str]:
        """List as a stream: the objects as ADDED events up to a bookmark."""
        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        objects: dict[str, T] = {}
        with self._open({**params, "timeoutSeconds": LIST_TIMEOUT}) as events:
            for event in events:
                if isinstance(event, Bookmark):
                    if event.ends_list:
                        return objects.values(), event.version
                elif event.type == "DELETED":
                    objects.pop(event.object.key, None)
                else:
                    objects[event.object.key] = event.object
        raise UnreachableError(f"the list of {self._endpoint.resource} broke off")

    def _paged(self) -> tuple[Iterable[T], str]:
        """List page by page; as a whole if the server no longer has the version of the first page."""
        params, objects = {**self._selectors, "limit": str(PAGE)}, list[T]()
        while True:
            try:
                body = self._connection.request("GET", self._path, params)
            except ResourceExpiredError:
                if "continue" not in params:
                    raise
                params, objects = dict(self._selectors), []
                continue
            self._heard()
            page = decode_list(self._struct, body, converts=self._endpoint.converts)
            objects += page.objects
            if not page.next:
                return objects, page.version
            params = params | {"continue": page.next}

    @contextmanager
    def _open(self, params: Mapping[str, str]) -> Iterator[Iterator[Event[T]]]:
        watched = {**self._selectors, "watch": "true", "allowWatchBookmarks": "true", **params}
        with self._connection.stream(self._path, watched) as stream:
            self._stream = stream
            self._heard()
            try:
                yield iter(()) if self._is_interrupted else map(self._event, stream)
            finally:
                self._stream = None

    def _event(self, line: bytes) -> Event[T]:
        self._heard()
        event = decode_event(line)
        if event.type == "BOOKMARK":
            return decode_bookmark(self._struct, event)
        if event.type == "ERROR":
            raise error_of(decode_status(event))
        if event.type not in _TYPES:
            raise ServerError(f"an event of the API server has an unknown type: {event.type!r}")
        kind: Any = event.type
        obj = decode_object_of(self._struct, event.object, converts=self._endpoint.converts)
        return WatchEvent(kind, obj, obj.metadata.resource_version)
