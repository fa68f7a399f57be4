"""Lister: reads the local copy of an informer."""

from __future__ import annotations

from typing import Generic, TypeVar

from moorage.kube import LabelSelectorMatcher, Object

from ..errors import NotFoundError
from ..kinds import singular
from .indexer import NAMESPACE_INDEX, Indexer

T = TypeVar("T", bound=Object)
Objects = list


class Lister(Generic[T]):
    """Reads the objects of one kind, in one namespace or in all, like client-go's listers.

    Parameters
    ----------
    indexer : Indexer
        An informer's local copy.
    namespace : str
        The one namespace; "" for all.
    """

    def __init__(self, struct: type[T], indexer: Indexer[T], namespace: str = "") -> None:
        self._struct = struct
        self._indexer = indexer
        self._namespace = namespace

    @property
    def changes(self) -> int:
        """The number of changes of the local copy so far."""
        return self._indexer.changes

    @property
    def is_empty(self) -> bool:
        """Whether the local copy has no objects, in any namespace."""
        return not len(self._indexer)

    def by_namespace(self, namespace: str) -> Lister[T]:
        """Return a lister of one namespace."""
        return Lister(self._struct, self._indexer, namespace)

    def get(self, name: str) -> T:
        """Return one object.

        Parameters
        ----------
        name : str
            In a lister of one namespace the object's name, else its key, ``namespace/name``.

        Raises
        ------
        NotFoundError
            The copy does not have the object.
        """
        obj = self._indexer.get(f"{self._namespace}/{name}" if self._namespace else name)
        if obj is None:
            what, short = singular(self._struct), name.rpartition("/")[2]
            raise NotFoundError(f'{what} "{short}" not found')
        return obj

    def list(self, selector: LabelSelectorMatcher | None = None) -> Objects[T]:
        """Return the objects whose labels match a selector; without one, all objects."""
        indexer, namespace = self._indexer, self._namespace
        objects = indexer.by_index(NAMESPACE_INDEX, namespace) if namespace else indexer.values()
        return [obj for obj in objects if selector is None or selector.matches(obj.metadata.labels)]

    def by_index(self, name: str, value: str) -> Objects[T]:
        """Return the objects of the lister's namespace that have a value in an index.

        Raises
        ------
        KeyError
            There is no such index.
        """
        objects = self._indexer.by_index(name, value)
        return [obj for obj in objects if obj.namespace == self._namespace] if self._namespace else objects
