"""Lists and watches of one kind, and the check of each object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from moorage.kube import Object
from moorage.store.errors import ApiError, ResourceExpiredError, ServerError, UnreachableError
from moorage.store.protocol import WatchEvent

from .connection import Connection, Stream
from .discovery import Endpoint
from .server_errors import error_of
from .wire_format import Bookmark, decode_bookmark, decode_event, decode_list, decode_object_of, decode_status

T = TypeVar("T", bound=Object)
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
    selectors : mapping of str to str
        Parameters of the query.
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
