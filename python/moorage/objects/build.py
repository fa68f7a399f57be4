"""From objects to a cluster: validation, defaults, duplicates, workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import InputError
from .cluster import Cluster
from .defaults import default_object, priority_classes
from .meta import Object
from .naming import Names
from .node import Namespace, Node
from .ownership import FINISHED
from .pod import Pod
from .validate import shorten, validate
from .workloads import expand_workloads

_EXAMPLES = 3


class Origin(NamedTuple):
    """Where an object was read: the file, the number of the document in it, and of the item in a list."""

    source: str = ""
    document: int = 0
    item: int | None = None

    def at(self, item: int) -> Origin:
        return Origin(self.source, self.document, item)


def label(kind: str, namespace: str, name: str, origin: Origin) -> str:
    """What to call an object in an error; one without a name is found by its position."""
    if name:
        return shorten(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}").strip()
    position = f"document {origin.document}" if origin.item is None else f"items[{origin.item}]"
    return f"{shorten(kind)} ({position})".strip()


def build_cluster(
    objects: Iterable[Object],
    *,
    origins: Sequence[Origin] | None = None,
    skipped: Mapping[str, int] | None = None,
) -> Cluster:
    """Make a cluster of objects: validate them, fill in defaults, expand workloads.

    Parameters
    ----------
    objects : iterable of Object
        As decoded or made by hand, in any order; controllers among them are expanded.
    origins : sequence of Origin, optional
        Where each object comes from, for errors.
    skipped : mapping, optional
        What the reader left out, by kind.

    Raises
    ------
    InputError
        For the first object that is wrong, or that stands twice in the input.
    """
    listed = list(objects)
    places = origins if origins is not None else [Origin()] * len(listed)
    names = Names()
    for i, obj in enumerate(listed):
        _locate(validate_unique, obj, names, places[i])
