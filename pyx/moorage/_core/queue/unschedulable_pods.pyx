"""Pods that wait for an event: rejected ones, and gated ones, which PreEnqueue rejects. Not thread-safe; the
queue has a lock.

kube-scheduler v1.36, backend/queue/unschedulable_pods.go.
"""

from collections import namedtuple
from itertools import chain, takewhile
from operator import attrgetter

from moorage._core.base cimport METADATA, SPEC, UID, Field
from moorage._core.queue.queued_pods cimport QueuedPodInfo
from moorage._core.state cimport PodClasses

FEW = 8
"""Fewer classes or pods than these are not indexed."""

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
    """Return the rejection of a pod.

    Parameters
    ----------
    info : QueuedPodInfo

    Returns
    -------
    Rejection
    """
    if info is None:
        raise TypeError("a pod is None")
    name = SCHEDULER_NAME.of(SPEC.of(info.pod))
    fields = name, info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    return tuple.__new__(Rejection, fields)  # faster than a call of the class


cpdef object microseconds(double seconds):
    """Round a time to whole microseconds.

    Sums and comparisons of the integers are exact, for every time with at most six decimals.

    Parameters
    ----------
    seconds : float

    Returns
    -------
    int
    """
    cdef object exact = seconds * 1000000
    return round(exact)


cdef bint _is_of(tuple rejection, QueuedPodInfo info) except -1:
    """Whether a pod has a rejection."""
    return (
        _are_equal(rejection[1], info.unschedulable_plugins)
        and _are_equal(rejection[2], info.pending_plugins)
        and _are_equal(rejection[3], info.gating_plugin)
        and _are_equal(rejection[0], SCHEDULER_NAME.of(SPEC.of(info.pod)))
    )


cdef inline double _waits_since(QueuedPodInfo info) except? -1:
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

    # indexes, pod_indexes: the classes, and the UIDs, by the keys of hints, for the hints of each event that
    # has happened.

    def __cinit__(self, rejection):
        self.rejection, self.pods, self.by_class = rejection, {}, {}
        self.indexes, self.pod_indexes = {}, {}


cdef class KeyIndex:
    """The classes of some pods, or their UIDs, by the keys of the hints that are called for an event."""

    cdef tuple hints      # a HintIndex of each
    cdef dict by_key      # key: a set of classes or UIDs
    cdef dict keys        # of a class or a UID
    cdef set others       # what any event may move

    def __cinit__(self, tuple hints not None):
        self.hints, self.by_key, self.keys, self.others = hints, {}, {}, set()

    cdef int add(self, one, pod) except -1:
        """Add a class by a pod of it, or a pod by its UID."""
        cdef set keys = set()
        for index in self.hints:
            try:
                found = index.keys(pod)
            except ValueError:  # a malformed pod; the hint will tell
                found = None
            if found is None:
                self.others.add(one)
                return 0
            keys |= found
        self.keys[one] = keys
        for key in keys:
            self.by_key.setdefault(key, set()).add(one)
        return 0

    cdef int remove(self, one) except -1:
        """Remove a class or a UID."""
        cdef set found
        self.others.discard(one)
        for key in self.keys.pop(one, ()):
            found = self.by_key[key]
            found.discard(one)
            if not found:
                del self.by_key[key]
        return 0

    cdef set find(self, old, new):
        """Return the classes or UIDs of the pods that an event may move, without the pod that it is about;
        None for all."""
        cdef set found = self.others.copy()
        for index in self.hints:
            keys = index.event_keys(old, new)
            if keys is None:
                return None
            for key in keys:
                of_key = self.by_key.get(key)
                if of_key is not None:
                    found |= <set>of_key
        return found


cdef class UnschedulablePods:
    """Unschedulable pods by rejection and class.

    Parameters
    ----------
    classes : PodClasses
        The classes of the pods.

    Attributes
    ----------
    by_rejection : dict of Rejection to RejectedPods
        Without rejections that have no pods.
    version : int
        Grows with each change of the keys of `by_rejection`.
    """

    def __init__(self, PodClasses classes not None):
        self.classes, self.by_rejection, self.places = classes, {}, {}
        self.generation = classes.number

    def __len__(self):
        return len(self.places)

    cdef object class_of(self, object pod):
        """Return a key that is equal for the pods for which hints `of_class` have one answer."""
        try:
            number = self.classes.intern(pod)
        except ValueError:  # the pod has no class, because it requests too many resources
            return UID.of(METADATA.of(pod))
        return number, self.classes.pinned_symbol(number, pod)

    cpdef int add(self, QueuedPodInfo info) except -1:
        """Add a pod. Its rejection must not change while it is here.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        cdef RejectedPods rejected = self.last
        if info is None:
            raise TypeError("a pod is None")
        if rejected is None or not _is_of(<tuple>rejected.rejection, info):
            rejection = rejection_of(info)
            rejected = self.by_rejection.get(rejection)
            if rejected is None:
                rejected = self.by_rejection[rejection] = RejectedPods(rejection)
                self.version += 1
            self.last = rejected
        rejected.pods[info.uid] = info
        return self.classify(info, rejected)

    cdef int classify(self, QueuedPodInfo info, RejectedPods rejected) except -1:
        """Add a pod of a rejection to the others of its class."""
        cdef KeyIndex index
        if self.generation != self.classes.number:
            self.classify_anew()
        uid, key = info.uid, self.class_of(info.pod)
        alike = rejected.by_class.get(key)
        if alike is None:
            alike = rejected.by_class[key] = {}
            for index in rejected.indexes.values():
                index.add(key, info.pod)
        (<dict>alike)[uid] = info
        for index in rejected.pod_indexes.values():
            index.add(uid, info.pod)
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
                index.remove(key)
        for index in rejected.pod_indexes.values():
            index.remove(uid)
        return rejected

    def by_class(self, RejectedPods rejected not None, tuple indexes not None, old, new):
        """Return the pods of a rejection that an event may move, for each class.

        Parameters
        ----------
        rejected : RejectedPods
        indexes : tuple of HintIndex
            The indexes of the hints that are to be called for the event.
        old, new : object or None
            The object of the event before and after it.

        Returns
        -------
        iterable of dict of str to QueuedPodInfo
        """
        cdef KeyIndex index
        if not indexes or len(rejected.by_class) < FEW:
            return rejected.by_class.values()
        known = rejected.indexes.get(indexes)
        if known is None:
            index = rejected.indexes[indexes] = KeyIndex(indexes)
            for one, alike in rejected.by_class.items():
                index.add(one, (<QueuedPodInfo?>next(iter(alike.values()))).pod)
        else:
            index = known
        classes = index.find(old, new)
        if classes is None:
            return rejected.by_class.values()
        for about in (old, new):
            if about is not None and (uid := about.metadata.uid) in rejected.pods:
                classes.add(self.places[uid][1])
        return [rejected.by_class[one] for one in classes]

    def by_pod(self, RejectedPods rejected not None, tuple indexes not None, old, new):
        """Return the pods of a rejection that an event may move, in any order.

        Parameters
        ----------
        rejected : RejectedPods
        indexes : tuple of HintIndex
            The indexes of the hints that are to be called for the event.
        old, new : object or None
            The object of the event before and after it.

        Returns
        -------
        iterable of QueuedPodInfo
        """
        cdef KeyIndex index
        cdef dict pods = rejected.pods
        if not indexes or len(pods) < FEW:
            return pods.values()
        known = rejected.pod_indexes.get(indexes)
        if known is None:
            index = rejected.pod_indexes[indexes] = KeyIndex(indexes)
            for uid, info in pods.items():
                index.add(uid, (<QueuedPodInfo?>info).pod)
        else:
            index = known
        found = index.find(old, new)
        if found is None:
            return pods.values()
        for about in (old, new):
            if about is not None:
                found.add(about.metadata.uid)
        return [pods[uid] for uid in found if uid in pods]

    def replace(self, QueuedPodInfo info not None, pod):
        """Replace the state of a pod, which keeps its position.

        Parameters
        ----------
        info : QueuedPodInfo
            The pod.
        pod : Pod
            Its new state.
        """
        rejected = self.declassify(info.uid)
        info.pod = pod
        self.classify(info, rejected)

    cpdef int remove(self, QueuedPodInfo info) except -1:
        """Remove a pod.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        if info is None:
            raise TypeError("a pod is None")
        rejected = self.declassify(info.uid)
        del rejected.pods[info.uid]
        if not rejected.pods:
            del self.by_rejection[rejected.rejection]
            self.last = None
            self.version += 1
        return 0

    def select(self):
        """Return the pods in the order in which they entered."""
        pods = chain.from_iterable([rejected.pods.values() for rejected in self.by_rejection.values()])
        return sorted(pods, key=ORDER)

    def older_than(self, end):
        """Return the pods without a group, gated ones too, that returned to the queue before a time, and were
        not flushed since.

        Parameters
        ----------
        end : int
            Microseconds.

        Returns
        -------
        list of QueuedPodInfo
            In the order in which they entered.
        """
        older = []
        for rejection, rejected in self.by_rejection.items():
            infos = (<RejectedPods?>rejected).pods.values()
            if rejection.gating_plugin:
                older += [one for one in infos if one.unit is None and microseconds(_waits_since(one)) < end]
            else:  # pods enter on their return to the queue, so in order of timestamp
                older += takewhile(lambda one: microseconds((<QueuedPodInfo?>one).timestamp) < end, infos)
        return sorted(older, key=ORDER)

    def oldest(self, bint gated):
        """Return the earliest time at which a pod without a group returned to the queue or was flushed there,
        in seconds.

        It is None if there are no pods.

        Parameters
        ----------
        gated : bool
            Whether gated pods count.

        Returns
        -------
        float or None
        """
        times = []
        for rejection, rejected in self.by_rejection.items():
            infos = (<RejectedPods?>rejected).pods.values()
            if not rejection.gating_plugin:
                times.append((<QueuedPodInfo?>next(iter(infos))).timestamp)
            elif gated:
                times += [_waits_since(info) for info in infos if info.unit is None]
        return min(times, default=None)
