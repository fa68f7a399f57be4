"""Events of a cluster in the order of time, as columns: what may happen, and what an autoscaler is."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage.autoscalers.group_settings import GroupSettings, Time, checked_groups, in_seconds
from moorage.autoscalers.group_settings import NodeGroup as NodeGroup
from moorage.cluster.verbs import EVENTS
from moorage.errors import InputError, located
from moorage.kube import Cluster, Node, Object, Pod
from moorage.kube.admission.validate_object import validate
from moorage.kube.plain import object_to_dict
from moorage.kube.read.object_defaults import default_object, priority_classes
from moorage.kube.strict_documents import Strict, parse_moment
from moorage.kube.workloads.ownership import Names
from moorage.lazy import NamedTuple
from moorage.store import parse_reference
from moorage.table import Table, Tabular


class Verb(IntEnum):
    """What an event does. Besides BIND and MEASURE, each is a change of `Scheduler` or a write to its store.

    A node joins with CREATE and leaves with LEAVE, which takes the pods on it with it. BIND records where
    another scheduler has put a pod: a replay decides itself, and compares (`moorage.sim.replay.verify`).
    MEASURE names a moment.
    """

    CREATE = 0
    DELETE = 1
    APPLY = 2
    PATCH = 3
    SCALE = 4
    LEAVE = 5
    DRAIN = 6
    CORDON = 7
    UNCORDON = 8
    TAINT = 9
    LABEL = 10
    MEASURE = 11
    BIND = 12


Seconds = float
"""Since the start of a timeline."""
Argument = Object | dict[str, Any] | int | str | tuple[str, ...]
"""An object to create or apply, a merge patch, a number of replicas, the name of a node, taints or labels."""


class Event(NamedTuple):
    """One event of a timeline.

    Attributes
    ----------
    time : float
        Seconds since the start of the timeline.
    verb : Verb
    subject : str
        The object as ``kind/name`` or ``kind/namespace/name``; the nodes, by name or selector, of the verbs
        of nodes; the name of a measurement.
    argument : Object, dict, int, str, tuple of str, or None
        What the verb needs besides.
    """

    time: float
    verb: Verb
    subject: str
    argument: Argument | None = None


LEAST_INTERVAL = 0.001
"""Seconds between scans."""


class KarpenterTimes(Strict, frozen=True):
    """Karpenter with the NodePools of the timeline: what its passes choose from, and how long its steps take.

    Attributes
    ----------
    instance_types : str, list of str or None
        A file of instance types, or a provider such as ``aws:us-east-1``, or several of what
        ``--instance-types`` takes; by default those of AWS for pools with an EC2NodeClass, and those that the
        nodes of each pool show for others.
    batch_idle, batch_max : str or float
        A pass begins when no pod has come for so long, or so long after the first one.
    launch_time, registration_time, initialization_time : str or float
        From the claim to a machine, from there to its node, and until the node takes pods.
    seed : int
        For what Karpenter leaves to chance; 0 takes domains by name.
    start_time : str or None
        When the timeline begins, for schedules of budgets and ages of claims, like 2026-06-01T12:00:00Z; by
        default when the newest object of the cluster was created.
    ignore_dra_requests : bool
        Whether no node comes for pods with resource claims.
    """

    instance_types: str | list[str] | None = None
    batch_idle: Time = 1.0
    batch_max: Time = 10.0
    launch_time: Time = 20.0
    registration_time: Time = 20.0
    initialization_time: Time = 10.0
    seed: int = 0
    start_time: str | None = None
    spot_to_spot: bool = False
    ignore_dra_requests: bool = True

    @property
    def type_names(self) -> list[str]:
        """What names the instance types; nothing for those of AWS, or that nodes show."""
        names = self.instance_types
        return [names] if isinstance(names, str) else names or []


class AutoscalerSpec(GroupSettings, frozen=True):
    """The autoscaler of a timeline: node groups with flags, and these fields.

    Attributes
    ----------
    karpenter : KarpenterTimes or None
        In place of node groups and all that is about them.
    """

    scan_interval: Time = 10.0
    seed: int = 0
    karpenter: KarpenterTimes | None = None


def checked(spec: AutoscalerSpec, templates: Mapping[str, Object]) -> AutoscalerSpec:
    """Check an autoscaler, and resolve its templates and times.

    Parameters
    ----------
    templates : mapping of str to Object
        To which groups may refer.

    Returns
    -------
    AutoscalerSpec
        With nodes as templates, and times in seconds.

    Raises
    ------
    InputError
        Names the field.
    """
    if (times := spec.karpenter) is not None:
        if spec != AutoscalerSpec(karpenter=times):
            raise InputError("makes nodes of NodePools: leave out all other fields", path="karpenter")
        with located(path="karpenter"):
            read = in_seconds(times)
            if times.start_time is not None:
                parse_moment(times.start_time, "startTime")
        return AutoscalerSpec(karpenter=read)
    for at, group in enumerate(spec.node_groups):
        if group.template is None:
            raise InputError("required", obj=f"node group {group.name}", path=f"nodeGroups[{at}].template")
    spec = in_seconds(spec)
    if float(spec.scan_interval) < LEAST_INTERVAL:
        why = f"must be at least {LEAST_INTERVAL} seconds, not {spec.scan_interval:g}"
        raise InputError(why, path="scanInterval")
    return checked_groups(spec, templates)


def spec_value(spec: AutoscalerSpec) -> dict[str, Any]:
    """Return an autoscaler as a JSON value."""
    value: dict[str, Any] = msgspec.to_builtins(spec, enc_hook=object_to_dict)
    for document, group in zip(value.get("nodeGroups", ()), spec.node_groups, strict=True):
        is_node = isinstance(group.template, Node)
        document["template"] = object_to_dict(group.template) if is_node else group.template
    return value


MOST_EVENTS = 2**31 - 1
_NO_NUMBER = -1
_CODES = {"time": "d", "verb": "b", "subject": "i", "ordinal": "i", "argument": "i"}


class EventColumns(Tabular):
    """Events in the order of time; see `Timeline`, which reads and writes them, too."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.cluster = Cluster() if cluster is None else cluster
        self.subjects: list[str] = []
        self.arguments: list[Argument] = []
        self.notes = Counter[str]()
        self.measures: list[str | dict[str, dict[str, Any]]] = []
        self.autoscaler: AutoscalerSpec | None = None
        self._subject_numbers: dict[str, int] = {}
        self._templates: dict[int, int] = {}  # id of an object that was passed to its argument number
        self._given: list[object] = []  # keeps those objects alive, so that no id is used twice
        self._columns: dict[str, array[Any]] = {name: array(code) for name, code in _CODES.items()}
        self._classes = priority_classes(self.cluster.others)
        self._sorted = True
        self._is_shared = False  # whether others may hold views of the columns, which then must not grow

    def __len__(self) -> int:
        return len(self._columns["time"])

    @property
    def may_have_nodes(self) -> bool:
        """Whether there are nodes at the start, or events or an autoscaler may add some."""
        has_nodes = self.autoscaler is not None or bool(self.cluster.nodes)
        return has_nodes or any(isinstance(argument, Node) for argument in self.arguments)

    @property
    def may_have_pods(self) -> bool:
        """Whether there are pods or workloads at the start, or events may add some."""
        added = any(isinstance(obj, Object) and not isinstance(obj, Node) for obj in self.arguments)
        return added or bool(self.cluster.pods or self.cluster.others)

    # ---- adding --------------------------------------------------------------------------------------------

    def start_with(self, cluster: Cluster) -> None:
        """Set the cluster at the start; events are added afterwards."""
        self.cluster = cluster
        self._classes = priority_classes(cluster.others)

    def autoscale(self, spec: AutoscalerSpec) -> None:
        """Have an autoscaler add and remove nodes (docs/autoscaling.md).

        Raises
        ------
        InputError
            Names the field that is wrong.
        """
        with located(path="autoscaler"):
            self.autoscaler = checked(spec, {})

    def template(self, obj: Object) -> int:
        """Validate an object and intern it; a loader calls it once for many equal objects.

        Returns
        -------
        int
            Its number among the `arguments`.

        Raises
        ------
        InputError
            The object is invalid.
        """
        known = self._templates.get(id(obj))
        if known is None:
            with located(obj=f"{obj.kind} {obj.name or obj.metadata.generate_name}"):
                named = obj
                if not obj.name and not obj.metadata.generate_name:
                    named = replace(obj, metadata=replace(obj.metadata, name="template"))
                validate(named)
                named = default_object(named, self._classes, Names(), admitted=True)
            named = replace(named, metadata=replace(named.metadata, name=obj.name, uid=obj.metadata.uid))
            known = self._templates[id(obj)] = len(self.arguments)
            self._given.append(obj)
            self.arguments.append(named)
        return known

    def template_at(self, number: int) -> Object:
        """Return a template by its number.

        Parameters
        ----------
        number : int
            Of an argument that is an object.
        """
        template = self.arguments[number]
        assert isinstance(template, Object)
        return template

    def subject(self, reference: str) -> int:
        """Intern a reference.

        Parameters
        ----------
        reference : str
            As ``pod/default/web``.

        Returns
        -------
        int
            Its number among the `subjects`.
        """
        known = self._subject_numbers.get(reference)
        if known is None:
            known = self._subject_numbers[reference] = len(self.subjects)
            self.subjects.append(reference)
        return known

    def add(
        self, time: float, verb: Verb, subject: int, argument: int = -1, ordinal: int = _NO_NUMBER
    ) -> None:
        """Add an event by numbers, as loaders do; the methods named as verbs are for users.

        Parameters
        ----------
        time : float
            Seconds since the start.
        subject, argument : int
            Numbers of `subject` and of `arguments`; -1 for no argument.
        ordinal : int, optional
            With it the name of the object is the name of the subject, a hyphen and this number.

        Raises
        ------
        InputError
            The time is negative or not finite, or there are 2^31 events.
        """
        if not 0 <= time < math.inf:
            raise InputError(f"must be a number of seconds of at least 0, not {time}", path="time")
        if self._is_shared:
            self._unshare()
        times = self._columns["time"]
        if self._sorted and times and time < times[-1]:
            self._sorted = False
        values = (time, verb, subject, ordinal, argument)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def extend(
        self,
        times: npt.NDArray[np.float64],
        verb: Verb,
        subject: int,
        argument: int,
        ordinals: npt.NDArray[np.int32],
    ) -> None:
        """Add many events of one verb, subject and argument.

        Parameters
        ----------
        times : (n,) float64 array
            Seconds from the start.
        ordinals : (n,) int32 array

        Raises
        ------
        InputError
            A time is negative or not finite, or there would be 2^31 events.
        """
        n = len(times)
        if len(self) + n > MOST_EVENTS:
            raise InputError(f"more than {MOST_EVENTS} events")
        if n and not (np.isfinite(times).all() and times.min() >= 0):
            raise InputError("must be numbers of seconds of at least 0", path="times")
        self._unshare()
        self._sorted = self._sorted and not n and not len(self)
        values = (times, verb, subject, ordinals, argument)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.frombytes(np.full(n, value, column.typecode).tobytes())

    def create(self, time: Seconds, obj: Object, name: str = "") -> None:
        """Create an object; a node joins this way.

        Parameters
        ----------
        obj : Object
            Also a template, of which many objects are made under their names.
        name : str, optional
            By default that of the object.

        Raises
        ------
        InputError
            The object is invalid or has no name.
        """
        number = self.template(obj)
        kept = self.template_at(number)
        name = name or obj.name
        if not name:
            raise InputError("required", obj=obj.kind, path="metadata.name")
        if name != obj.name:
            with located(obj=f"{obj.kind} {name}"):
                validate(replace(kept, metadata=replace(kept.metadata, name=name)))
        self.add(time, Verb.CREATE, self.subject(reference_of(kept, name)), number)

    def apply(self, time: Seconds, obj: Object) -> None:
        """Create or replace an object; see `ClusterChanges.apply`."""
        number = self.template(obj)
        kept = self.template_at(number)
        self.add(time, Verb.APPLY, self.subject(reference_of(kept, obj.name)), number)

    def _event(self, time: Seconds, verb: Verb, subject: str, argument: Argument | None = None) -> None:
        """Add an event about an object, nodes, or a name, with an argument of its own."""
        change = EVENTS.get(verb.name.lower())
        if verb is not Verb.MEASURE and change is None and "/" in subject:
            subject = self._in_full(subject, verb is Verb.BIND or subject.count("/") > 1)
        number = -1
        if argument is not None:
            number = len(self.arguments)
            self.arguments.append(argument)
        self.add(time, verb, self.subject(subject), number)

    def _in_full(self, reference: str, has_all: bool) -> str:
        """Return a reference with its kind and namespace, where it has all of it, or means what an event has
        created; others are looked up when their event happens."""
        try:
            struct, namespace, name = parse_reference(reference)
        except InputError:
            if has_all:
                raise
            return reference
        whole = "/".join(part for part in (struct.__name__.lower(), namespace, name) if part)
        return whole if has_all or whole in self._subject_numbers else reference

    def delete(self, time: Seconds, reference: str) -> None:
        """Delete an object, such as ``deploy/web``; one that is gone by then is counted, not an error. See
        `ClusterChanges.delete` for references."""
        self._event(time, Verb.DELETE, reference)

    def patch(self, time: Seconds, reference: str, patch: dict[str, Any]) -> None:
        """Change an object by a JSON merge patch."""
        self._event(time, Verb.PATCH, reference, patch)

    def scale(self, time: Seconds, reference: str, replicas: int) -> None:
        """Set the replicas of a workload; see `ClusterChanges.scale`."""
        self._event(time, Verb.SCALE, reference, replicas)

    def leave(self, time: Seconds, nodes: str) -> None:
        """Remove nodes with the pods on them; see `ClusterChanges.remove_nodes`.

        Parameters
        ----------
        nodes : str
            A name or a label selector, as for the verbs `drain`, `cordon`, `uncordon` and `taint`.
        """
        self._event(time, Verb.LEAVE, nodes)

    def drain(self, time: Seconds, nodes: str) -> None:
        """Cordon nodes and evict their pods; see `ClusterChanges.drain`."""
        self._event(time, Verb.DRAIN, nodes)

    def cordon(self, time: Seconds, nodes: str) -> None:
        """Make nodes unschedulable."""
        self._event(time, Verb.CORDON, nodes)

    def uncordon(self, time: Seconds, nodes: str) -> None:
        """Make nodes schedulable again."""
        self._event(time, Verb.UNCORDON, nodes)

    def taint(self, time: Seconds, nodes: str, *taints: str) -> None:
        """Set or remove taints of nodes; see `ClusterChanges.taint`."""
        self._event(time, Verb.TAINT, nodes, taints)

    def label(self, time: Seconds, reference: str, *labels: str) -> None:
        """Set or remove labels of an object; see `ClusterChanges.label`."""
        self._event(time, Verb.LABEL, reference, labels)

    def measure(self, time: Seconds, name: str) -> None:
        """Name a moment, at which the history notes the usage of the cluster."""
        self._event(time, Verb.MEASURE, name)

    def bind(self, time: Seconds, pod: str, node: str) -> None:
        """Record where another scheduler has put a pod, such as ``pod/default/web-1``, for comparison."""
        self._event(time, Verb.BIND, pod, node)

    def add_pods(
        self, template: Pod, times: npt.ArrayLike, lifetimes: npt.ArrayLike | None = None, name: str = ""
    ) -> None:
        """Create pods of a template, and delete them when their lifetimes end.

        The pods are named by the template and a number, from 0 on in the order of `times`.

        Parameters
        ----------
        times : (n,) array
            Seconds, as of `poisson`, `bursts` or `diurnal`.
        lifetimes : (n,) array, optional
            Seconds between creation and deletion; infinite for none. Without it the pods stay.
        name : str, optional
            By default the name of the template.

        Raises
        ------
        InputError
            The arrays differ in length, or a lifetime is negative.
        """
        created = np.asarray(times, np.float64)
        spans = np.full(len(created), np.inf) if lifetimes is None else np.asarray(lifetimes, np.float64)
        if spans.shape != created.shape or not (spans >= 0).all():
            raise InputError("must be as many as there are times, and not negative", path="lifetimes")
        number = self.template(template)
        kept = self.template_at(number)
        base = name or template.name or template.metadata.generate_name.rstrip("-.")
        subject = self.subject(reference_of(kept, base))
        first = self._first_ordinal(subject)
        ordinals = np.arange(first, first + len(created), dtype=np.int32)
        self.extend(created, Verb.CREATE, subject, number, ordinals)
        ends = np.isfinite(spans)
        self.extend((created + spans)[ends], Verb.DELETE, subject, -1, ordinals[ends])

    def _first_ordinal(self, subject: int) -> int:
        """Return the first number that no pod of a subject has."""
        ordinals, subjects = (np.frombuffer(self._columns[name], np.int32) for name in ("ordinal", "subject"))
        used = ordinals[subjects == subject]
        return int(used.max()) + 1 if len(used) else 0

    # ---- making others -------------------------------------------------------------------------------------

    def repeat(self, times: int, every: float = 0.0) -> Self:
        """Return a timeline that has the events of this one several times.

        The objects of copy number i, from 0 on, have the names of this timeline, a hyphen and i. The cluster
        is not repeated.

        Parameters
        ----------
        every : float, optional
            Seconds between the starts of two copies; with 0 all copies happen at once.

        Raises
        ------
        InputError
            An event has a numbered object, or is about nodes; there would be 2^31 events.
        """
        self._sort()
        columns = self.columns()
        if (columns["ordinal"] >= 0).any() or not np.isin(columns["verb"], _REPEATABLE).all():
            raise InputError("only creations, deletions and bindings under names of their own are repeated")
        if len(self) * times > MOST_EVENTS:
            raise InputError(f"more than {MOST_EVENTS} events")
        out = self._like()
        copies = np.repeat(np.arange(times, dtype=np.int32), len(self))
        out._fill(
            np.tile(columns["time"], times) + copies * every,
            np.tile(columns["verb"], times),
            np.tile(columns["subject"], times),
            copies,
            np.tile(columns["argument"], times),
        )
        return out

    def window(self, start: float, end: float) -> Self:
        """Return the events from a time up to, but not including, another one, with the times kept.

        Parameters
        ----------
        start, end : float
            Seconds from the start.
        """
        self._sort()
        columns = self.columns()
        low, high = np.searchsorted(columns["time"], [start, end])
        out = self._like()
        out._fill(*(column[low:high] for column in columns.values()))
        return out

    def without_bindings(self) -> Self:
        """Return the timeline without recorded bindings."""
        columns = self.columns()
        kept = columns["verb"] != Verb.BIND
        out = self._like()
        out._fill(*(column[kept] for column in columns.values()))
        return out

    def _like(self) -> Self:
        """Return an empty timeline that shares the names, arguments and the cluster of this one."""
        out = type(self)(self.cluster)
        out.subjects, out.arguments = list(self.subjects), list(self.arguments)
        out._subject_numbers = dict(self._subject_numbers)
        out._templates, out._given = dict(self._templates), list(self._given)
        out.notes = self.notes.copy()
        out.measures, out.autoscaler = list(self.measures), self.autoscaler
        return out

    def _fill(self, *columns: npt.NDArray[Any]) -> None:
        """Take columns: times, verbs, subjects, ordinals, arguments."""
        for (name, code), column in zip(_CODES.items(), columns, strict=True):
            self._columns[name] = array(code, np.ascontiguousarray(column, code).tobytes())
        self._sorted = self._is_shared = False

    # ---- reading -------------------------------------------------------------------------------------------

    def _unshare(self) -> None:
        """Replace columns that others hold views of by copies."""
        if self._is_shared:
            self._columns = {name: column[:] for name, column in self._columns.items()}
            self._is_shared = False

    def _sort(self) -> None:
        """Bring the events into the order of time; those of one time keep theirs."""
        if self._sorted:
            return
        order = np.argsort(np.frombuffer(self._columns["time"]), kind="stable")
        self._fill(*(np.frombuffer(column, column.typecode)[order] for column in self._columns.values()))
        self._sorted = True

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the events as arrays, in the order of time.

        Returns
        -------
        dict of str to (n,) array
            time (float64, seconds), verb (int8), subject, ordinal, argument (int32).
        """
        self._sort()
        self._is_shared = True
        return {name: np.frombuffer(column, column.typecode) for name, column in self._columns.items()}

    def event(self, at: int) -> Event:
        """Return one event.

        Parameters
        ----------
        at : int
            Index in the order of time.
        """
        self._sort()
        time, verb, number, ordinal, at_argument = (column[at] for column in self._columns.values())
        argument = self.arguments[at_argument] if at_argument >= 0 else None
        subject = self.subjects[number]
        return Event(time, Verb(verb), subject if ordinal < 0 else f"{subject}-{ordinal}", argument)

    def argument_number(self, at: int) -> int:
        """Return the number of the argument of an event; -1 for none.

        Parameters
        ----------
        at : int
            Index in the order of time.
        """
        return int(self._columns["argument"][at])

    def __iter__(self) -> Iterator[Event]:
        return map(self.event, range(len(self)))

    @property
    def end(self) -> float:
        """Time of the last event; 0 without events."""
        self._sort()
        return float(self._columns["time"][-1]) if len(self) else 0.0

    def headline(self) -> str:
        """Return the number of events and of nodes at the start, in one line."""
        return f"{len(self)} events in {self.end:g} s, {len(self.cluster.nodes)} nodes at the start"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each event.

        Returns
        -------
        Table
            Columns time (seconds), verb, subject.
        """
        n = len(self) if limit is None else min(limit, len(self))
        events = [self.event(at) for at in range(n)]
        return Table(
            {
                "time": np.array([event.time for event in events], np.float64),
                "verb": [event.verb.name.lower() for event in events],
                "subject": [event.subject for event in events],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the timeline as a JSON value."""
        return self.table().to_dict()


_REPEATABLE = (Verb.CREATE, Verb.DELETE, Verb.BIND)


def reference_of(obj: Object, name: str) -> str:
    """Return the reference of an object under a name, as ``pod/default/web``."""
    return "/".join(part for part in (obj.kind.lower(), obj.namespace, name) if part)
