"""What the table of kinds can say about a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .kind_values import Find, Groups, Values

NOT_SIMULATED = "which is not simulated"


class Part(NamedTuple):
    """Where an object has templates, and how many pods each makes.

    Attributes
    ----------
    at : str
        Path of the maps with a template each: ``spec.tasks[*]``, ``spec.replicaSpecs.*``.
    name : str
        See `Group`; ``{name}`` is that of the object, ``{part}`` that of the map: its `label`, or its key.
    template : str
        Path of the template in the map; "" if the map itself is a pod.
    counts : tuple of str
        Fields whose product is the number of pods; a missing one is 1.
    label : str
        Path of the name of a map.
    is_job : bool
        Whether a template is that of a Job.
    """

    at: str
    name: str = "{name}-{part}-{index}"
    template: str = "template"
    counts: tuple[str, ...] = ("replicas",)
    label: str = "name"
    is_job: bool = False


class Count(NamedTuple):
    """How many pods a part of an object asks for that are not made; a part with ``enabled: false`` for none.

    Attributes
    ----------
    at : str
        Path of the maps that are such a part.
    fields : tuple of str
        Fields of the map whose product is the number.
    default : int
        What a missing field is.
    only : (str, frozenset), optional
        A field of the map, and the values with which it counts.
    per_node : str, optional
        Path of a map with node selector, affinity and tolerations: the number is for each node that they
        take. "" is the map itself.
    device : str
        Beginning of a resource or label that these nodes have.
    """

    at: str = "spec"
    fields: tuple[str, ...] = ("replicas",)
    default: int = 1
    only: tuple[str, frozenset[object]] = ("", frozenset())
    per_node: str | None = None
    device: str = ""


class Rule(NamedTuple):
    """What a kind makes.

    Attributes
    ----------
    parts : tuple of Part
        The templates of pods or Jobs.
    groups : callable, optional
        Makes the groups of pods from the templates in the object, if more than their numbers follows from it.
    complete : callable, optional
        Returns the object with what other objects have that it refers to; a text says why there is none, as
        in `why_left_out`.
    objects : str
        Path of whole objects in the object.
    counts : tuple of Count
        What the object asks for if its pods are not made; without any it is one pod.
    suspend : str
        Path of a field that is true while nothing runs.
    is_batch : bool
        Whether pods that have finished are not made again.
    scheduler : str
        That of pods that name none, unless ``spec.schedulerName`` does.
    why_none : str
        Why the object itself makes no pods: a reason that is told, or "" to pass it over.
    why_left_out : str
        Why the pods of a kind that is not simulated do not follow from the object, as a clause.
    renders : str
        What renders the manifests that the object delivers.
    is_exact : bool
        Whether the number of pods is that of the object, and not one that its controller changes.
    is_read : bool
        Whether other objects refer to one of a kind that makes no pods itself.
    """

    parts: tuple[Part, ...] = ()
    groups: Callable[[Values], Groups] | None = None
    complete: Callable[[Values, Find], Values | str] | None = None
    objects: str = ""
    counts: tuple[Count, ...] = ()
    suspend: str = ""
    is_batch: bool = False
    scheduler: str = ""
    why_none: str | None = None
    why_left_out: str = NOT_SIMULATED
    renders: str = ""
    is_exact: bool = True
    is_read: bool = False
