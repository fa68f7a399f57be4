"""Decodes lists and watch events from bytes into the structs of objects.

A first use of a type by several threads at once crashes the decoder of msgspec 0.22 (it fills tables of the
type without a lock). Therefore the decoders of all kinds are made when this module is imported.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from moorage.errors import InputError
from moorage.objects import Object
from moorage.objects.model.meta import Struct
from moorage.objects.read.decode import UNREADABLE, decode_kind
from moorage.store.errors import ServerError
from moorage.store.kinds import structs

from .server_errors import StatusAnswer, read_answer

T = TypeVar("T", bound=Object)


class _ListMeta(Struct, frozen=True):
    """Metadata of a list (meta/v1)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectList(Struct, Generic[T], frozen=True):
    """A page of a list.

    Attributes
    ----------
    metadata : ListMeta
        The resource version, and the token of the next page, "" without one.
    items : tuple of Object
    """

    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = ()


class RawEvent(msgspec.Struct):
    """An event of a watch. Its object depends on its type: that of a bookmark is no valid object."""

    type: str
    object: msgspec.Raw


class _BookmarkMeta(Struct, frozen=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(Struct, frozen=True):
    """What is read of the object of a bookmark."""

    metadata: _BookmarkMeta = _BookmarkMeta()

    @property
    def ends_list(self) -> bool:
        """Whether all objects that existed when the watch began have been sent."""
        return (self.metadata.annotations or {}).get("k8s.io/initial-events-end") == "true"


_EVENT = msgspec.json.Decoder(RawEvent)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_ITEMS = msgspec.json.Decoder(ObjectList[Any])
_STATUS = msgspec.json.Decoder(StatusAnswer)
_OBJECTS: dict[type[Object], msgspec.json.Decoder[Any]] = {
    one: msgspec.json.Decoder(one) for one in structs()
}
_WITH_TEMPLATE = {
    one for one in _OBJECTS if "template" in getattr(getattr(one(), "spec", None), "__struct_fields__", ())
}
"""Kinds with a pod template, whose fields that scheduling does not read are kept (see `decode_as`)."""
_OF_KIND: Any = ObjectList  # for types that are known when this runs
_LISTS: dict[type[Object], msgspec.json.Decoder[Any]] = {
    struct: msgspec.json.Decoder(_OF_KIND[struct]) for struct in _OBJECTS
}


def decode_object_of(struct: type[T], body: bytes | msgspec.Raw, *, converts: bool = False) -> T:
    """Decode one object.

    Parameters
    ----------
    struct : type
        The kind.
    body : bytes
        JSON text.
    converts : bool, optional
        Whether it may be of another version than the struct's.

    Raises
    ------
    ServerError
        It is no object of this kind.
    """
    try:
        if not converts and struct not in _WITH_TEMPLATE:
            obj: T = _OBJECTS[struct].decode(body)
            return obj
    except UNREADABLE:
        pass  # nulls, or an error that is explained below
    try:
        read: Any = decode_kind(body if isinstance(body, msgspec.Raw) else msgspec.Raw(body), struct.__name__)
    except (InputError, *UNREADABLE) as error:
        raise ServerError(f"a {struct.__name__} of the API server cannot be read: {error}") from None
    named: T = msgspec.structs.replace(read, kind=struct.__name__, api_version=struct().api_version)
    return named


def decode_list(struct: type[T], body: bytes, *, converts: bool = False) -> ObjectList[T]:
    """Decode a page of a list.

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
    try:
        if not converts and struct not in _WITH_TEMPLATE:
            page: ObjectList[T] = _LISTS[struct].decode(body)
            return page
    except UNREADABLE:
        pass
    try:
        raw: ObjectList[Any] = _ITEMS.decode(body)
    except UNREADABLE as error:
        raise ServerError(f"a list of the API server cannot be read: {error}") from None
    texts = map(msgspec.json.encode, raw.items or ())
    return ObjectList(
        metadata=raw.metadata, items=tuple([decode_object_of(struct, text, converts=True) for text in texts])
    )


def decode_event(line: bytes) -> RawEvent:
    """Decode an event of a watch, without its object.

    Raises
    ------
    ServerError
        It is no event.
    """
    try:
        return _EVENT.decode(line)
    except UNREADABLE as error:
        raise ServerError(f"an event of the API server cannot be read: {error}") from None


def decode_bookmark(event: RawEvent) -> tuple[str, bool]:
    """Return the resource version of a bookmark, and whether it ends the list of existing objects.

    Raises
    ------
    ServerError
        Its object is none.
    """
    try:
        bookmark = _BOOKMARK.decode(event.object)
    except UNREADABLE as error:
        raise ServerError(f"a bookmark of the API server cannot be read: {error}") from None
    return bookmark.metadata.resource_version, bookmark.ends_list


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
