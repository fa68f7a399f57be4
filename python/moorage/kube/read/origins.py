"""Origins of objects: where in which file each one was read."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, overload

from moorage.errors import shorten


class Origin(NamedTuple):
    """The origin of an object: file, index of the document, index of the item in a list.

    `argument` is the number of the argument of `load` that names the file, or its directory or archive.
    """

    source: str = ""
    document: int = 0
    item: int | None = None
    argument: int = 0


class Origins(Sequence[Origin]):
    """The origins of objects in reading order, without an object for each.

    Attributes
    ----------
    argument : int
        The present one.
    """

    def __init__(self) -> None:
        self._sources: list[str] = []
        self._starts: list[int] = []  # index of the first object of each source
        self._arguments: list[int] = []  # of each source
        self._documents, self._items = array("q"), array("q")
        self.argument = -1

    def begin_argument(self) -> None:
        """Begin the next argument: what is added from now on has been read from it."""
        self.argument += 1

    def add(self, source: str, document: int, item: int | None) -> None:
        """Append an origin.

        Parameters
        ----------
        source : str
            Name of the file.
        document : int
            Index of the document.
        item : int or None
            Index of the item in a list.
        """
        if not self._sources or self._sources[-1] is not source or self._arguments[-1] != self.argument:
            self._sources.append(source)
            self._starts.append(len(self._items))
            self._arguments.append(self.argument)
        self._documents.append(document)
        self._items.append(-1 if item is None else item)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Origin: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Origin]: ...

    def __getitem__(self, at: int | slice) -> Origin | Sequence[Origin]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        file = bisect_right(self._starts, at) - 1
        item = self._items[at]
        argument = self._arguments[file]
        return Origin(self._sources[file], self._documents[at], None if item < 0 else item, argument)


def label(kind: str, namespace: str, name: str, origin: Origin) -> str:
    """Return the name of an object in errors; its position if it has no name.

    Parameters
    ----------
    kind, namespace, name : str
        Identity of the object; empty if unknown.
    origin : Origin
        Origin of the object.

    Returns
    -------
    str
        ``Pod default/web-1``, or ``Pod (document 2)``.
    """
    if name:
        return shorten(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}").strip()
    position = f"document {origin.document}" if origin.item is None else f"items[{origin.item}]"
    return f"{shorten(kind)} ({position})" if kind else position
