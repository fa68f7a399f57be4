"""The places of the scheduling queue together, and what several pods do in one step: enter as new ones,
return after their attempts, and move when an event makes them worth another one.

kube-scheduler v1.36, backend/queue/scheduling_queue.go. Not thread-safe; the queue has a lock.
"""

from libc.math cimport isnan

from moorage._core.base cimport METADATA, STATUS, UID, Cause, Field, Notice, group_of
from moorage._core.queue.queued_pods cimport PriorityLanes, QueuedGroupInfo, QueuedPodInfo
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
    top_of : callable or None
        Returns the group whose pods are tried together with those of a group; None where groups are ignored.

    Attributes
    ----------
    infos : dict of str to QueuedPodInfo
        The waiting pods by UID.
    active : PriorityLanes or other queue
    backoff : BackoffQueue
    unschedulable : UnschedulablePods
    groups : dict of tuple of str to QueuedGroupInfo
        The groups that wait.
    in_flight : InFlight
    numbers : Numbers
        Numbers the pods that enter a place.
    """

    def __init__(self, Entrance entrance not None, now not None, bint pop_from_backoff, top_of):
        self.infos, self.in_flight, self.numbers = {}, InFlight(), Numbers()
        self.groups = {}
        self.entrance, self.now = entrance, now
        self.pop_from_backoff, self.top_of, self.groups_pods = pop_from_backoff, top_of, top_of is not None

    cdef int wait(self, QueuedPodInfo info, place) except -1:
        """Add a pod, or a group that has no pods yet, to a place, as the last of what waits."""
        self.numbers.last += 1
        info.order, info.place = self.numbers.last, place
        if info.size:
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

    cdef object unit_of(self, key, dict tops):
        """Return the group whose pods are tried together with those of a group. `tops` takes what is known of
        groups until one of them changes."""
        unit = tops.get(key)
        if unit is None:
            unit = tops[key] = self.top_of(key)
        return unit

    cdef int join_active(self, QueuedPodInfo info, unit) except -1:
        """Add a pod that PreEnqueue passes to its group, which is in the active queue or new."""
        cdef QueuedGroupInfo group
        known = self.groups.get(unit)
        if known is None:
            group = self.groups[unit] = QueuedGroupInfo(unit, info.timestamp)
            group.pod, group.first_ready = info.pod, info.first_ready
            self.wait(group, ACTIVE)
        else:
            group = known
        self.infos[info.uid] = info
        return group.join(info)

    def release(self, list groups not None):
        """Remove groups that were popped, and return their pods. The pods stay in `infos`.

        Parameters
        ----------
        groups : list of QueuedGroupInfo

        Returns
        -------
        list of QueuedPodInfo
            Group by group, in the order of `group_order`.
        """
        cdef QueuedGroupInfo group
        cdef list infos = []
        for entry in groups:
            group = <QueuedGroupInfo?>entry
            del self.groups[group.unit]
            infos += group.released()
        return infos

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
            The number of pods that were added to each; a pod that joins a group counts with all of the group.
        info : QueuedPodInfo or None
            The first pod that was not added, because it waits already, or may be rejected by PreEnqueue or
            nominated, or because its group waits elsewhere; None if all were added.
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
            unit = group_of(info.pod) if self.groups_pods else None
            if unit is not None:
                unit = self.unit_of(unit, tops)
                group = self.groups.get(unit)
                if group is not None and (<QueuedGroupInfo>group).place is not ACTIVE:
                    return added, gated, info
            if isnan(info.first_ready):
                info.first_ready = self.now()
            info.gating_plugin = ""
            if unit is None:
                self.wait(info, ACTIVE)
                added += 1
            else:
                self.join_active(info, unit)
                added += (<QueuedGroupInfo>self.groups[unit]).size
        return added, gated, None

    def reject(self, list infos not None, list latest not None, rejectors not None, Py_ssize_t first):
        """End the attempts of rejected pods: those that no event since their pop concerns become
        unschedulable, and those of groups wait for the end of the attempt of their group.

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
            there were events, or the attempt of its group has ended.
        """
        cdef QueuedPodInfo info
        cdef Py_ssize_t at = first
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
                if info.unit is not None and (info.group is None or info.group.place is not None):
                    break
                info.note_failure(plugins, self.now())
                if info.unit is None:
                    self.wait(info, UNSCHEDULABLE)
                else:
                    info.group.join(info)
                    self.infos[info.uid] = info
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
