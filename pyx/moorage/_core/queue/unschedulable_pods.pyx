# cython: auto_pickle=False
"""Pods that wait for an event: rejected ones, and gated ones, which PreEnqueue rejects. Not thread-safe; the
queue has a lock.

kube-scheduler v1.36, backend/queue/unschedulable_pods.go.
"""

from collections import namedtuple
from itertools import chain, takewhile
from operator import attrgetter

from libc.math cimport rint
from libc.stdint cimport int64_t

from moorage._core.base cimport METADATA, SPEC, UID, Field
from moorage._core.queue.queued_pods cimport QueuedPodInfo, Waiting
from moorage._core.state cimport PodClasses

FEW = 8
"""Fewer classes or pods than these are not indexed."""

cdef double WHOLE = 2.0**62  # numbers up to it fit into 64 bits
cdef object ORDER = attrgetter("order")
cdef Field SCHEDULER_NAME = Field("scheduler_name")


Rejection = namedtuple(
    "Rejection", "scheduler_name unschedulable_plugins pending_plugins gating_plugin", module=__name__
)
Rejection.__doc__ = """The profile of a pod and the plugins that rejected it, which decide the events that can
move the pod.

Attributes
----------
scheduler_name : str
    Of the profile.
unschedulable_plugins : frozenset of str
    The plugins that rejected the pod.
pending_plugins : frozenset of str
    Those among them that returned Pending.
gating_plugin : str
    The plugin whose PreEnqueue gates the pod, or "".
"""


cpdef object rejection_of(QueuedPodInfo info):
    """Return the rejection of a pod."""
    if info is None:
        raise TypeError("a pod is None")
    name = SCHEDULER_NAME.of(SPEC.of(info.pod))
    fields = name, info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    return tuple.__new__(Rejection, fields)  # faster than a call of the class


cpdef object microseconds(double seconds):
    """Round a time to whole microseconds.

    Sums and comparisons of the integers are exact, for every time with at most six decimals.
    """
    cdef double exact = seconds * 1000000
    if -WHOLE < exact < WHOLE:
        return <int64_t>rint(exact)
    return round(<object>exact)


cdef bint _is_of(tuple rejection, QueuedPodInfo info) except -1:
    """Whether a pod has a rejection."""
    return (
        _are_equal(rejection[1], info.unschedulable_plugins)
        and _are_equal(rejection[2], info.pending_plugins)
        and _are_equal(rejection[3], info.gating_plugin)
        and _are_equal(rejection[0], SCHEDULER_NAME.of(SPEC.of(info.pod)))
    )


cdef double waits_since(QueuedPodInfo info) except? -1:
    """When the wait of a gated pod for its timeout began, in seconds."""
    return max(info.timestamp, info.flushed_at)


cdef inline bint _are_equal(one, other) except -1:
    """Whether two objects are equal, most of which are the same."""
    return one is other or one == other


cdef class RejectedPods:
    """The unschedulable pods of one rejection.

    Attributes
    ----------
    pods : dict of str to QueuedPodInfo
        By UID, in the order in which they entered.
    by_class : dict
        The same pods by UID, for each class. None of the dicts is empty.
    """

    # indexes: by the hints of each event that has happened, and whether they index classes.

    def __cinit__(self, rejection):
        self.rejection, self.pods, self.by_class, self.indexes = rejection, {}, {}, {}


cdef class KeyIndex:
    """The classes of some pods, or their UIDs, by the keys of the hints that are called for an event."""

    cdef tuple hints      # a HintIndex of each
    cdef bint of_class
    cdef dict by_key      # key: a set of classes or UIDs
    cdef dict keys        # of a class or a UID
    cdef set others       # what any event may move

    def __cinit__(self, tuple hints not None, bint of_class=False):
        self.hints, self.of_class = hints, of_class
        self.by_key, self.keys, self.others = {}, {}, set()

    cdef int add(self, item, pod) except -1:
        """Add a class by a pod of it, or a pod by its UID."""
        cdef set keys = set()
        for index in self.hints:
            try:
                of_hint = index.keys(pod)
            except ValueError:  # a malformed pod; the hint will tell
                of_hint = None
            if of_hint is None:
                self.others.add(item)
                return 0
            keys |= of_hint
        self.keys[item] = keys
        for key in keys:
            self.by_key.setdefault(key, set()).add(item)
        return 0

    cdef int remove(self, item) except -1:
        """Remove a class or a UID."""
        cdef set items
        self.others.discard(item)
        for key in self.keys.pop(item, ()):
            items = self.by_key[key]
            items.discard(item)
            if not items:
                del self.by_key[key]
        return 0

    cdef set find(self, old, new):
        """Return the classes or UIDs of the pods that an event may move, without the pod that it is about;
        None for all."""
        cdef set items = self.others.copy()
        for index in self.hints:
            keys = index.event_keys(old, new)
            if keys is None:
                return None
            for key in keys:
                of_key = self.by_key.get(key)
                if of_key is not None:
                    items |= <set>of_key
        return items


cdef class UnschedulablePods(Waiting):
    """Unschedulable pods by rejection and class.

    Parameters
    ----------
    classes : PodClasses
        The classes of the pods.

    Attributes
    ----------
    by_rejection : dict of Rejection to RejectedPods
        Without rejections that have no pods.
    """

    def __init__(self, PodClasses classes not None):
        self.classes, self.by_rejection, self.places = classes, {}, {}
        self.generation = classes.number

    cdef object class_of(self, object pod):
        """Return a key that is equal for the pods for which hints `of_class` have one answer."""
        try:
            number = self.classes.intern(pod)
        except ValueError:  # the pod has no class, because it requests too many resources
            return UID.of(METADATA.of(pod))
        return number, self.classes.pinned_symbol(number, pod)

    cdef int enter(self, QueuedPodInfo entry) except -1:
        """Add a pod. Its rejection must not change while it is here."""
        cdef RejectedPods rejected = self.last
        if rejected is None or not _is_of(<tuple>rejected.rejection, entry):
            rejection = rejection_of(entry)
            rejected = self.by_rejection.get(rejection)
            if rejected is None:
                rejected = self.by_rejection[rejection] = RejectedPods(rejection)
            self.last = rejected
        rejected.pods[entry.uid] = entry
        self.size += 1
        return self.classify(entry, rejected)

    cdef int classify(self, QueuedPodInfo info, RejectedPods rejected) except -1:
        """Add a pod of a rejection to the others of its class."""
        cdef KeyIndex index
        if self.generation != self.classes.number:
            self.classify_anew()
        uid, key = info.uid, self.class_of(info.pod)
        is_first = key not in rejected.by_class
        rejected.by_class.setdefault(key, {})[uid] = info
        for index in rejected.indexes.values():
            if is_first or not index.of_class:
                index.add(key if index.of_class else uid, info.pod)
        self.places[uid] = rejected, key
        return 0

    cdef int classify_anew(self) except -1:
        """Find the classes of all pods, which have been numbered anew."""
        cdef RejectedPods rejected
        cdef dict by_class
        self.generation = self.classes.number
        for rejected in self.by_rejection.values():
            by_class = {}
            for uid, info in [item for alike in rejected.by_class.values() for item in alike.items()]:
                key = self.class_of((<QueuedPodInfo?>info).pod)
                by_class.setdefault(key, {})[uid] = info
                self.places[uid] = rejected, key
            rejected.by_class = by_class
            rejected.indexes.clear()
        return 0

    cdef RejectedPods declassify(self, str uid):
        """Remove a pod from the others of its class; return the pods of its rejection."""
        cdef KeyIndex index
        cdef RejectedPods rejected
        cdef dict alike
        rejected, key = self.places.pop(uid)
        alike = rejected.by_class[key]
        del alike[uid]
        if not alike:
            del rejected.by_class[key]
        for index in rejected.indexes.values():
            if not (index.of_class and alike):
                index.remove(key if index.of_class else uid)
        return rejected

    def listening(self, event, meaning):
        """Return the pods of each rejection that an event may move, and what the event means for them.

        Parameters
        ----------
        event : ClusterEvent
        meaning : callable
            Returns what an event means for a rejection.

        Returns
        -------
        list of (RejectedPods, Meaning)
        """
        cdef list listeners = []
        for rejection, rejected in self.by_rejection.items():
            means = meaning(rejection, event)
            if means.may_move:
                listeners.append((rejected, means))
        return listeners

    def may_move(self, RejectedPods rejected not None, tuple indexes not None, bint of_class, old, new):
        """Return the pods of a rejection that an event may move, in any order.

        Parameters
        ----------
        rejected : RejectedPods
        indexes : tuple of HintIndex
            The indexes of the hints that are to be called for the event.
        of_class : bool
            Whether these hints have one answer for all pods of a class.
        old, new : object or None
            The object of the event before and after it.

        Returns
        -------
        iterable of QueuedPodInfo, or of dict of str to QueuedPodInfo
            With `of_class`, the pods of each class by UID.
        """
        cdef KeyIndex index
        cdef dict held = rejected.by_class if of_class else rejected.pods
        if not indexes or len(held) < FEW:
            return held.values()
        known = rejected.indexes.get((indexes, of_class))
        if known is None:
            index = rejected.indexes[indexes, of_class] = KeyIndex(indexes, of_class)
            for item, value in held.items():
                index.add(item, (<QueuedPodInfo?>(next(iter(value.values())) if of_class else value)).pod)
        else:
            index = known
        items = index.find(old, new)
        if items is None:
            return held.values()
        for about in (old, new):
            if about is not None and (uid := about.metadata.uid) in rejected.pods:
                items.add(self.places[uid][1] if of_class else uid)
        return [held[item] for item in items]

    cdef int replace(self, QueuedPodInfo info, pod) except -1:
        """Replace the state of a pod, which keeps its position."""
        rejected = self.declassify(info.uid)
        info.pod = pod
        return self.classify(info, rejected)

    cdef int leave(self, QueuedPodInfo entry) except -1:
        rejected = self.declassify(entry.uid)
        del rejected.pods[entry.uid]
        self.size -= 1
        if not rejected.pods:
            del self.by_rejection[rejected.rejection]
            self.last = None
        return 0

    cdef list select(self):
        """Return the pods in the order in which they entered."""
        pods = chain.from_iterable([rejected.pods.values() for rejected in self.by_rejection.values()])
        return sorted(pods, key=ORDER)

    cdef list older_than(self, end):
        """Return the pods without a group, gated ones too, that returned to the queue before a time in
        microseconds, and were not flushed since."""
        older = []
        for rejection, rejected in self.by_rejection.items():
            infos = (<RejectedPods?>rejected).pods.values()
            if rejection.gating_plugin:
                older += [one for one in infos if one.unit is None and microseconds(waits_since(one)) < end]
            else:  # pods enter on their return to the queue, so in order of timestamp
                older += takewhile(lambda one: microseconds((<QueuedPodInfo?>one).timestamp) < end, infos)
        return older

    cdef list times(self, bint gated):
        """Return times in seconds at which pods without a group returned to the queue or were flushed there,
        among them the earliest; those of gated pods only if they count."""
        times = []
        for rejection, rejected in self.by_rejection.items():
            infos = (<RejectedPods?>rejected).pods.values()
            if not rejection.gating_plugin:
                times.append((<QueuedPodInfo?>next(iter(infos))).timestamp)
            elif gated:
                times += [waits_since(info) for info in infos if info.unit is None]
        return times
