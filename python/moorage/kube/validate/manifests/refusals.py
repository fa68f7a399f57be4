"""Objects of a change that an API server would refuse: they are left out, and the others are looked at."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from moorage.errors import InputError, shorten
from moorage.kube.model.cluster import Cluster, EndedObject, RefusedObject
from moorage.kube.model.meta import Object
from moorage.kube.model.other_workloads import full_kind
from moorage.kube.read.origins import Origin, label

T = TypeVar("T")


class Check(Protocol):
    """What an API server checks of objects beside the rules of their kinds."""

    def __call__(self, obj: Object) -> None:
        """Raise an InputError about an object that is valid otherwise."""

    def release(self, cluster: Cluster) -> str:
        """Return the release of the server, for example "1.36"."""


_LONGEST = 2000
STORED = -2
"""In place of the argument of an object that is in the cluster already."""


def located_at(error: InputError, obj: Object, origin: Origin) -> InputError:
    """Return an error with the place of its object."""
    named = label(obj.kind, obj.namespace, obj.name, origin)
    return InputError(error.message, source=origin.source, obj=named, path=error.path)


class RefusedObjectsError(InputError):
    """An API server would refuse objects of a change. The text is about the first one.

    Attributes
    ----------
    refused : dict of Origin to RefusedObject
        All that were found at once.
    """

    def __init__(self, first: InputError, refused: Mapping[Origin, RefusedObject]) -> None:
        super().__init__(first.message, source=first.source, obj=first.obj, path=first.path)
        self.refused = refused


class Refusals:
    """Collects the objects of a change that are refused. What is wrong with the cluster itself is an error.

    Parameters
    ----------
    cluster : int
        The argument that is the cluster, or `STORED`; manifests of later ones change it.
    check : callable, optional
        Raises an InputError about an object that is valid otherwise.
    """

    def __init__(self, cluster: int = 0, check: Callable[[Object], None] | None = None) -> None:
        self._cluster, self._check = cluster, check
        self._first: InputError | None = None
        self._refused: dict[Origin, RefusedObject] = {}

    def check(self, obj: Object) -> None:
        """Check a valid object; raise an InputError."""
        if self._check is not None:
            self._check(obj)

    def is_change(self, origin: Origin) -> bool:
        """Whether a manifest is of a change."""
        return origin.argument > self._cluster

    def add(self, error: InputError, obj: Object, origin: Origin, is_manifest: bool = True) -> None:
        """Note that a manifest, or what a manifest makes of an object, is refused.

        Raises
        ------
        InputError
            The manifest is of the cluster, or it is none.
        """
        located = located_at(error, obj, origin)
        if not (is_manifest and self.is_change(origin)):
            raise located from None
        self._first = self._first or located
        names = obj.kind, obj.api_version, obj.namespace, obj.name or located.obj
        self._refused[origin] = refused_object(error, names, origin.source)

    def raise_any(self) -> None:
        """Raise a RefusedObjectsError if any object was refused."""
        first, refused = self._first, self._refused
        if first is not None:
            self._first, self._refused = None, {}
            raise RefusedObjectsError(first, refused)


def refused_object(error: InputError, names: tuple[str, str, str, str], source: str) -> RefusedObject:
    """Return an object that an API server refuses.

    Parameters
    ----------
    names : tuple of str
        Kind, API version, namespace and name.
    source : str
        The file.
    """
    kind, api_version, namespace, name = names
    message = shorten(error.message, _LONGEST)
    if error.path or message.startswith("["):
        field = f"{error.path}: " if error.path else ""
        message = f'{full_kind(kind, api_version)} "{name}" is invalid: {field}{message}'
    return RefusedObject(api_version.rpartition("/")[0], kind, namespace, name, source, message)


class ReadEnded(NamedTuple):
    """An object in a version that has ended, as it was read.

    Attributes
    ----------
    obj : EndedObject
    argument : int
        See `Origin`.
    origin : Origin or None
        None for a kind that is not read.
    is_manifest : bool
        False for one of an API server, which has served it.
    """

    obj: EndedObject
    argument: int
    origin: Origin | None
    is_manifest: bool


def refused_versions(
    ended: Iterable[ReadEnded], cluster: int, release: Callable[[], str]
) -> list[tuple[Origin | None, RefusedObject]]:
    """Return the objects of a change in versions that a release does not serve, with their origins.

    Parameters
    ----------
    cluster : int
        As for `Refusals`.
    release : callable
        Returns the release; it is called only where releases differ.
    """
    return [
        (one.origin, _refused_version(one.obj))
        for one in ended
        if one.is_manifest and one.argument > cluster
        if not (one.obj.version.depends_on_release and one.obj.version.is_served(release()))
    ]


def _refused_version(obj: EndedObject) -> RefusedObject:
    group, kind = obj.version.api_version.rpartition("/")[0], obj.version.kind
    return RefusedObject(group, kind, obj.namespace, obj.name, obj.source, obj.version.text)


def kept_objects(
    objects: Sequence[Object],
    origins: Sequence[Origin],
    texts: Mapping[int, bytes],
    gone: Container[Origin | None],
) -> tuple[list[Object], Sequence[Origin], Mapping[int, bytes]]:
    """Return objects, their origins, and texts by their indexes, without the objects of some origins."""
    kept = [at for at, origin in enumerate(origins) if origin not in gone]
    left = {new: texts[at] for new, at in enumerate(kept) if at in texts}
    return [objects[at] for at in kept], [origins[at] for at in kept], left


def without_refused(
    build: Callable[..., T],
    objects: list[Object],
    origins: Sequence[Origin],
    texts: Mapping[int, bytes],
) -> tuple[T, list[RefusedObject]]:
    """Build from all objects but those that are refused, as if these had not been given.

    Parameters
    ----------
    build : callable
        Takes objects, and by name their ``origins`` and ``texts`` (see `build_cluster`). It is called until
        nothing is refused, each time with fewer objects.

    Returns
    -------
    object
        What it returns.
    list of RefusedObject
    """
    refused: list[RefusedObject] = []
    while True:
        try:
            return build(objects, origins=origins, texts=texts), refused
        except RefusedObjectsError as error:
            number = len(objects)
            objects, origins, texts = kept_objects(objects, origins, texts, error.refused)
            assert len(objects) < number
            refused += error.refused.values()
