"""The places of the scheduling queue together, and what several pods do in one step: enter as new ones,
return after their attempts, and move when an event makes them worth another one.

kube-scheduler v1.36, backend/queue/scheduling_queue.go. Not thread-safe; the queue has a lock.
"""

from libc.math cimport isnan
from libc.stdint cimport int64_t

from moorage._core.base cimport METADATA, STATUS, UID, Cause, Field, Notice
from moorage._core.queue.queued_pods cimport PriorityLanes, QueuedPodInfo
from moorage._core.queue.queued_pods import Place

cdef Field NOMINATED_NODE_NAME = Field("nominated_node_name")
cdef object ACTIVE = Place.ACTIVE, BACKOFF = Place.BACKOFF, UNSCHEDULABLE = Place.UNSCHEDULABLE


cdef class PodQueue:
    """The waiting pods, each in one place, and the pods in flight.

    Parameters
    ----------
    entrance : Entrance
        Tells which pods PreEnqueue passes.
    now : callable
        Returns seconds.
    pop_from_backoff : bool
        Whether an empty active queue takes pods from the backoff queue. PreEnqueue then runs before the
        backoff.
    groups_pods : bool
        Whether pods of a group are tried together.

    Attributes
    ----------
    infos : dict of str to QueuedPodInfo
        The waiting pods by UID.
    active : PriorityLanes or other queue
    backoff : BackoffQueue
    unschedulable : UnschedulablePods
    units : GroupedPods
        The waiting pods of each group.
    in_flight : InFlight
    numbers : Numbers
        Numbers the pods that enter a place.
    """

    def __init__(self, Entrance entrance not None, now not None, bint pop_from_backoff, bint groups_pods):
        self.infos, self.in_flight, self.numbers = {}, InFlight(), Numbers()
        self.entrance, self.now = entrance, now
        self.pop_from_backoff, self.groups_pods = pop_from_backoff, groups_pods

    cdef int wait(self, QueuedPodInfo info, place) except -1:
        """Add a pod to a place, as the last of the waiting pods."""
        self.numbers.last += 1
        info.order, info.place = self.numbers.last, place
        self.infos[info.uid] = info
        if place is UNSCHEDULABLE:
            self.unschedulable.add(info)
        elif place is BACKOFF:
            self.backoff.add(info)
        elif type(self.active) is PriorityLanes:
            (<PriorityLanes>self.active).add(info)
        else:
            self.active.add(info)
        return 0

    cdef bint passes(self, QueuedPodInfo info, set groups) except -1:
        """Whether nothing keeps a pod out of the backoff queue; False where it is not known. `groups` takes
        the groups whose pods pass."""
        return not self.pop_from_backoff or self.entrance.passes_with(info.pod, groups)

    def admit(self, infos):
        """Add new pods to the active queue, and where groups are ignored those that PreEnqueue gates for
        certain to the unschedulable pods, up to the first of which it is not known.

        Parameters
        ----------
        infos : iterator of QueuedPodInfo

        Returns
        -------
        added, gated : int
            The number of pods that were added to each.
        info : QueuedPodInfo or None
            The first pod that was not added, because it waits already, or may be rejected by PreEnqueue or
            nominated; None if all were added.
        """
        cdef QueuedPodInfo info
        cdef Py_ssize_t added = 0, gated = 0
        cdef set groups = set()
        cdef dict tops = {}
        for info in infos:
            if info.uid in self.infos or self.entrance.is_nominated(info.pod):
                return added, gated, info
            if not self.entrance.passes_with(info.pod, groups):
                if self.groups_pods or not self.entrance.gates(info):
                    return added, gated, info
                self.wait(info, UNSCHEDULABLE)
                gated += 1
                continue
            if isnan(info.first_ready):
                info.first_ready = self.now()
            info.gating_plugin = ""
            if self.groups_pods:
                self.units.enter_alike(info, tops)
            self.wait(info, ACTIVE)
            added += 1
        return added, gated, None

    def reject(self, list infos not None, list latest not None, rejectors not None, Py_ssize_t first):
        """End the attempts of rejected pods: those that no event since their pop concerns become
        unschedulable, and those of groups, which need no event, back off.

        Parameters
        ----------
        infos : list of QueuedPodInfo
        latest : list of Pod or None
            The latest state of each pod.
        rejectors : sequence of (frozenset of str, frozenset of str)
            The plugins that rejected each pod, and those among them that answered Pending.
        first : int
            Index of the first pod.

        Returns
        -------
        int
            Index of the first pod that needs a closer look: it has changed, is nominated or was not rejected,
            there were events, or it may not back off.
        """
        cdef QueuedPodInfo info
        cdef Py_ssize_t at = first
        cdef int64_t until
        cdef double time
        cdef set groups = set()
        cdef dict tops = {}
        if first < 0 or not len(infos) == len(latest) == len(rejectors):
            raise ValueError("a state and rejectors of each pod are wanted, and a pod to begin with")
        try:
            while at < len(infos):
                info, plugins = infos[at], <tuple>tuple(rejectors[at])
                if info is None or len(plugins) != 2:
                    raise TypeError("a pod is None, or has other than two sets of rejectors")
                if not (plugins[0] or plugins[1]) or info.uid in self.infos \
                        or not self.in_flight.is_as_popped(info, latest[at]):
                    break
                time, until = self.now(), 0
                if info.unit is not None:
                    until = self.backoff.end_of(time, info.unschedulable_count + 1, info.unit_size)
                    if until == 0 or not self.passes(info, groups):
                        break
                info.note_failure(plugins, time)
                info.until = until
                if info.unit is None:
                    self.wait(info, UNSCHEDULABLE)
                else:
                    self.units.enter_alike(info, tops)
                    self.wait(info, BACKOFF)
                at += 1
        finally:
            self.in_flight.finish(infos[first:at])
        return at

    def move_unschedulable(self, list infos not None, Py_ssize_t first):
        """Move rejected pods without a group, which back off, from the unschedulable pods to the backoff
        queue; up to the first other one.

        Parameters
        ----------
        infos : list of QueuedPodInfo
        first : int
            Index of the first pod.

        Returns
        -------
        end : int
            Index of the first pod that was not moved.
        is_over : bool
            Whether the backoff of that pod is over. Otherwise it has to be looked at more closely.
        """
        cdef QueuedPodInfo info
        cdef Py_ssize_t at
        if first < 0:
            raise ValueError("a pod to begin with is wanted")
        for at in range(first, len(infos)):
            info = <QueuedPodInfo?>infos[at]
            if info.place is not UNSCHEDULABLE or info.unit is not None or not info.rejectors:
                return at, False
            if not self.passes(info, set()):
                return at, False
            if not self.backoff.is_backing_off(info, self.now()):
                return at, True
            self.unschedulable.remove(info)
            del self.infos[info.uid]
            if self.pop_from_backoff:
                info.gating_plugin = ""
            self.wait(info, BACKOFF)
        return len(infos), False

    def follow_nominations(self, notices, dict nodes not None, dict by_node not None):
        """Enter the leading pods whose nomination was written to their status, and is known already: the pod
        waits in the active or the backoff queue, and was the last that was nominated to its node.

        Parameters
        ----------
        notices : iterable of Notice
            Of pods.
        nodes, by_node : dict
            Of the nominator. The latter takes the new states.

        Returns
        -------
        int
            The number of leading notices of that kind.
        """
        cdef Notice notice
        cdef QueuedPodInfo info
        cdef dict pods
        cdef Py_ssize_t count = 0
        for notice in notices:
            if notice.cause != Cause.NOMINATED:
                break
            old, new = notice.old, notice.new
            info = self.infos.get(UID.of(METADATA.of(new)))
            if info is None or info.place is UNSCHEDULABLE or info.pod is not old:
                break
            node = NOMINATED_NODE_NAME.of(STATUS.of(new))
            if not node or NOMINATED_NODE_NAME.of(STATUS.of(old)) or nodes.get(info.uid) != node:
                break
            pods = by_node[node]
            if next(reversed(pods)) != info.uid:
                break
            pods[info.uid] = info.pod = new
            count += 1
        return count
