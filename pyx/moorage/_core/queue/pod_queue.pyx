"""The scheduling queue: every waiting pod in one place, and the pods in flight.

kube-scheduler v1.36, backend/queue/scheduling_queue.go. An entry is a pod, or a group whose pods are tried
together, as in v1.37.
"""

import logging
from collections import Counter
from functools import partial
from itertools import chain
from operator import attrgetter
from threading import Condition

from fastrlock.rlock cimport lock_fastrlock, unlock_fastrlock
from libc.math cimport isnan

from moorage._core.base cimport METADATA, NODE_NAME, SPEC, STATUS, UID, Cause, Field, Notice, group_of
from moorage._core.queue.queued_pods cimport QueuedGroupInfo, QueuedPodInfo, Waiting
from moorage._core.queue.unschedulable_pods cimport microseconds, waits_since
from moorage._core.queue.queued_pods import Place, Strategy

logger = logging.getLogger("moorage.queue")

cdef Field NOMINATED_NODE_NAME = Field("nominated_node_name"), PHASE = Field("phase")
cdef frozenset FINISHED = frozenset(("Succeeded", "Failed"))
cdef tuple NO_PLUGINS = (frozenset(), frozenset())
cdef object ORDER = attrgetter("order")
cdef object ACTIVE = Place.ACTIVE, BACKOFF = Place.BACKOFF, UNSCHEDULABLE = Place.UNSCHEDULABLE
cdef object ERROR_BACKOFF = Place.ERROR_BACKOFF
cdef object SKIP = Strategy.SKIP, AFTER_BACKOFF = Strategy.AFTER_BACKOFF, IMMEDIATELY = Strategy.IMMEDIATELY
# Names of the places in counts of pods that enter, and in messages.
cdef dict QUEUES = {
    ACTIVE: ("active", "the active queue"),
    BACKOFF: ("backoff", "the backoff queue"),
    ERROR_BACKOFF: ("backoff", "the backoff queue"),
    UNSCHEDULABLE: ("unschedulable", "unschedulable queue"),
}
cdef str FAILED = "ScheduleAttemptFailure", BACKOFF_COMPLETE = "BackoffComplete"
cdef str POP_FROM_BACKOFF = "PopFromBackoffQ"


cdef class PodQueue:
    """The waiting pods, each in one place, and the pods in flight. It has no threads of its own.

    ``with queue:`` holds its lock, and at its end wakes the threads that wait for a pod if there is one.
    Public methods do so themselves, but for those of one look-up; attributes are read, and private methods
    called, in such a block.

    Parameters
    ----------
    settings : QueueSettings
    make_active : callable
        Returns an empty active queue.
    gates : Gates
        PreEnqueue: tells whether a plugin gates a pod.
    hints : Hints
        Tells whether events help a failed pod.
    nominator : PodNominator
        Receives the nominations of the pods.
    clock : callable
        Returns seconds.
    lock : fastrlock.rlock.FastRLock

    Attributes
    ----------
    pod_events : PodEvents
        Those of the hints.
    groups_pods : bool
        That of the settings.
    infos : dict of str to QueuedPodInfo
        The waiting pods by UID.
    groups : dict of tuple of str to QueuedGroupInfo
        The groups that wait.
    active, backoff, unschedulable : Waiting
        The places.
    flights : InFlight
    now : callable
        Returns the time in seconds: the clock, or the time at which a timer fires.
    fired : tuple of int
        When the backoff timer and the unschedulable timer last fired, in microseconds.
    waiting : int
        The number of threads that wait in `pop`.
    changes : int
        Equal numbers mean equal pods in equal places.
    """

    def __cinit__(self, settings not None, make_active not None, gates not None, hints not None,
                  nominator not None, clock not None, lock not None):
        self.settings, self.make_active, self.nominator, self.now = settings, make_active, nominator, clock
        self.gates, self.hints, self.entrance = gates, hints, Entrance(gates.rules)
        self.lock, self.changed = lock, Condition(lock)
        self.pop_from_backoff, self.groups_pods = settings.pop_from_backoff, settings.groups_pods
        self.pod_events = hints.pod_events
        self.added, self.updated = self.pod_events.added.label, self.pod_events.updated.label
        self.infos, self.flights, self.nominated = {}, InFlight(), nominator.nodes
        self.fired = (microseconds(clock()),) * 2
        self.clear()

    def __enter__(self):
        lock_fastrlock(self.lock, -1, True)

    def __exit__(self, kind, error, trace):
        try:
            if self.waiting and self.has_next():
                self.changed.notify_all()
        finally:
            unlock_fastrlock(self.lock)

    cdef int clear(self) except -1:
        """Replace all places by empty ones."""
        self.changes += 1
        self.groups, self.active = {}, self.make_active()
        times = self.settings.initial_backoff, self.settings.max_backoff
        self.backoff = BackoffQueue(*times, self.pop_from_backoff, self.active.rank)
        self.unschedulable = UnschedulablePods(self.hints.classes)
        return 0

    # ---- reading

    def __len__(self):
        """Return the number of waiting pods in all places."""
        return len(self.infos)

    def get(self, uid):
        """Return the waiting pod of a UID; None for one that is unknown or in flight."""
        return self.infos.get(uid)

    def in_flight(self):
        """Return the pods whose attempt has not ended, in the order in which they were popped."""
        with self:
            return list(self.flights)

    def in_flight_pod(self, str uid):
        """Return the pod in flight of a UID, or None."""
        with self:
            return self.flights.get(uid)

    def in_flight_events(self):
        """Return the events that some pod in flight may still need, with their old and new objects."""
        with self:
            return self.flights.events

    def count_incoming(self):
        """Count the pods that enter a queue from now on.

        Returns
        -------
        Counter
            By queue (active, backoff or unschedulable) and label of the event. The queue adds to it.
        """
        with self:
            if self.incoming is None:
                self.incoming = Counter()
            return self.incoming

    def backoff_until(self, QueuedPodInfo info not None):
        """Return when the backoff of a pod ends; None for one without backoff.

        kube-scheduler looks once a second whose backoff has ended, and moves the pods of one second
        together, so that those of high priority go first. So the end is rounded down to a whole second, and
        the pod moves when that second is over: at 14.0 for an end of 13.0, which `next_event` returns. Where
        no pod is active, `pop` does not wait for it. With the gate SchedulerPopFromBackoffQ off, the end is
        not rounded, and the pod moves at the first look after it.

        Returns
        -------
        float or None
            Seconds.
        """
        until = self.backoff.until(self.entry_of(info))
        return until / 1_000_000 if until else None

    def is_listening(self):
        """Whether an event can have an effect: some pod is unschedulable or in flight."""
        return self.unschedulable.size > 0 or len(self.flights) > 0

    @property
    def has_unschedulable(self):
        """Whether some pod waits for an event, or for what keeps it out of the queue."""
        return self.unschedulable.size > 0

    cpdef QueuedPodInfo entry_of(self, QueuedPodInfo info):
        """Return the entry that a waiting pod belongs to: its group, or itself. A group has no place from its
        pop to the end of its attempt, nor have the pods that were given back to it.

        Raises
        ------
        TypeError
            The pod is None.
        """
        if info is None:
            raise TypeError("a pod is None")
        if info.group is not None:
            return info.group
        return info if info.unit is None else self.groups.get(info.unit, info)

    cdef list pods_of(self, entries):
        """Return the pods of entries in order, those of a group as they are tried."""
        if not self.groups:
            return list(entries)
        return list(chain.from_iterable([(<QueuedPodInfo?>entry).ordered() for entry in entries]))

    def _pending(self):
        """Return the waiting pods of each place, as the fields of `PendingPods`."""
        return self.pods_of(self.active), *self.others()

    def inactive(self):
        """Return all waiting pods but those in the active queue."""
        with self:
            return list(chain(*self.others()))

    cdef tuple others(self):
        """Return the waiting pods of each place but the active queue."""
        entries = dict.fromkeys([self.entry_of(info) for info in self.unschedulable.select()])
        unschedulable = self.pods_of(entries)
        return (
            self.pods_of(self.backoff.rejected),
            self.pods_of(self.backoff.failed),
            [info for info in unschedulable if not info.gating_plugin],
            [info for info in unschedulable if info.gating_plugin],
        )

    cdef bint has_next(self) except -1:
        """Whether a pod can be popped."""
        return self.active.size > 0 or (self.pop_from_backoff and self.backoff.rejected.size > 0)

    cdef list gated_groups(self):
        """Return the gated groups."""
        return [group for group in self.groups.values() if group.place is UNSCHEDULABLE]

    def _older_than(self, end):
        """Return the entries that have been unschedulable since before a time in microseconds, and were not
        flushed since, in the order in which they entered."""
        groups = [group for group in self.gated_groups() if microseconds(waits_since(group)) < end]
        return sorted([*self.unschedulable.older_than(end), *groups], key=ORDER)

    def _oldest(self, bint gated):
        """Return the earliest time since which an entry has been unschedulable, in seconds; None without any.
        Gated pods and groups may count or not."""
        times = self.unschedulable.times(gated)
        if gated:
            times += [waits_since(group) for group in self.gated_groups()]
        return min(times, default=None)

    # ---- places

    cdef Waiting queue_of(self, QueuedPodInfo entry):
        """Return the entries of the place that an entry, which is not unschedulable, is in."""
        return self.active if entry.place is ACTIVE else self.backoff

    cdef int put(self, QueuedPodInfo entry, place) except -1:
        """Add an entry to a place, where its order says."""
        cdef QueuedPodInfo info
        self.changes += 1
        entry.move_to(place)
        if entry.unit is not None:
            self.groups[entry.unit] = entry
        for info in entry.listed():
            self.infos[info.uid] = info
            if place is UNSCHEDULABLE:
                self.unschedulable.enter(info)
        return 0 if place is UNSCHEDULABLE else self.queue_of(entry).enter(entry)

    cdef int leave(self, QueuedPodInfo entry) except -1:
        """Remove a waiting entry from its place."""
        cdef QueuedPodInfo info
        self.changes += 1
        if entry.place is not UNSCHEDULABLE:
            self.queue_of(entry).leave(entry)
        for info in entry.listed():
            if entry.place is UNSCHEDULABLE:
                self.unschedulable.leave(info)
            del self.infos[info.uid]
        if entry.unit is not None:
            del self.groups[entry.unit]
        return entry.move_to(None)

    cdef int count(self, QueuedPodInfo entry, str label) except -1:
        """Count the pods of an entry that enters a queue, or that one more pod has joined there."""
        if self.incoming is not None:
            self.incoming[QUEUES[entry.place][0], label] += entry.size
        return 0

    cdef int move(self, QueuedPodInfo entry, place, str label) except -1:
        """Move an entry to a place, behind those there that are equal to it. Where PreEnqueue rejects it, it
        becomes unschedulable.

        If pods may be popped from the backoff queue, PreEnqueue runs before the backoff; else after it.
        """
        cdef bint is_gated = False
        before = entry.place
        if place is ACTIVE and before is UNSCHEDULABLE and entry.unit is not None and self.stays_gated(entry):
            return 0
        if before is not None:
            self.leave(entry)
        if place is ACTIVE:
            is_gated = not (self.pop_from_backoff and (before is BACKOFF or before is ERROR_BACKOFF))
        elif place is not UNSCHEDULABLE:
            is_gated = self.pop_from_backoff
        is_gated = is_gated and self.is_gated(entry, set())
        if place is ACTIVE:
            if not is_gated and (entry.unit is not None or isnan(entry.first_ready)):
                entry.note_ready(self.now())
            if entry.unit is None and (not is_gated or self.settings.nominates_gated):
                self.nominate_new(entry, label)
        self.number += 1
        entry.order = self.number
        self.put(entry, UNSCHEDULABLE if is_gated else place)
        if before is not UNSCHEDULABLE or entry.place is not UNSCHEDULABLE:
            self.count(entry, label)
        return 0

    cdef int follow(self, strategy, QueuedPodInfo entry, str label) except -1:
        """Move an entry to the place that a strategy selects."""
        if strategy is SKIP:
            return self.move(entry, UNSCHEDULABLE, label)
        if strategy is IMMEDIATELY or not self.backoff.is_backing_off(entry, self.now()):
            return self.move(entry, ACTIVE, label)
        return self.move(entry, BACKOFF if entry.rejectors else ERROR_BACKOFF, label)

    def requeue(self, moves not None, str label):
        """Move entries, one after the other, to the places that strategies select.

        Parameters
        ----------
        moves : iterable of (Strategy, QueuedPodInfo)
        label : str
            Label of the event that moves them.
        """
        with self:
            for strategy, entry in moves:
                self.follow(strategy, self.entry_of(entry), label)

    def flush_backoff_completed(self):
        """Move the entries whose backoff has ended to the active queue."""
        cdef QueuedPodInfo entry
        cdef double now
        with self:
            now = self.now()
            while (entry := self.backoff.completed(now)) is not None:
                self.move(entry, ACTIVE, BACKOFF_COMPLETE)

    cdef int nominate_new(self, QueuedPodInfo info, str label) except -1:
        """Nominate a pod that has come to the queue."""
        if (label == self.added or label == self.updated) and self.has_nominations(info.pod):
            self.nominator.add_nominated_pod(info.pod)
        return 0

    cdef bint has_nominations(self, pod) except -1:
        """Whether a pod, or any other one, is nominated."""
        return bool(self.nominated) or bool(NOMINATED_NODE_NAME.of(STATUS.of(pod)))

    # ---- PreEnqueue

    cdef bint is_gated(self, QueuedPodInfo entry, set passing) except -1:
        """Run PreEnqueue for the pods of an entry: while one of a group is gated, all are (kube-scheduler
        v1.37, runPreEnqueuePlugins). `passing` takes the groups whose pods certainly pass."""
        cdef QueuedPodInfo info
        cdef str gate = ""
        cdef list pods = entry.listed()
        for info in pods:
            if self.entrance.passes(info.pod, passing):
                info.gating_plugin = ""
            elif self.gates.ask(info):
                gate = info.gating_plugin
        entry.gating_plugin = gate
        for info in pods if gate else ():
            info.gating_plugin = info.gating_plugin or gate
        return gate != ""

    cdef bint stays_gated(self, QueuedGroupInfo group) except -1:
        """Whether the plugin that gates a group certainly does so again: it gates the pod that came last."""
        cdef QueuedPodInfo newest = next(reversed(group.members.values()))
        self.changes += 1
        self.unschedulable.leave(newest)
        is_gated = self.is_gated(newest, set())
        newest.gating_plugin = newest.gating_plugin or group.gating_plugin
        self.unschedulable.enter(newest)
        return is_gated and newest.gating_plugin == group.gating_plugin

    # ---- pods come, change and go

    def add(self, pods not None, bint until_gated=False, str label=None):
        """Add new pods without a node, one after the other.

        Parameters
        ----------
        pods : iterable of (Pod or QueuedPodInfo)
            Pods, which come now, or entries. Each replaces the entry of its UID, if there is one.
        until_gated : bool, optional
            Whether to end after the first pod that PreEnqueue gates, before the next one is taken.
        label : str, optional
            Label of the event; by default that of new pods.
        """
        cdef QueuedPodInfo info
        cdef dict tops = {}
        cdef set passing = set()
        label = label or self.added
        with self:
            for pod in pods:
                info = pod if isinstance(pod, QueuedPodInfo) else QueuedPodInfo(pod, self.now())
                if info.uid in self.infos:
                    self.remove(self.infos[info.uid], label)
                self.enter(info, label, tops, passing)
                if until_gated and info.place is not ACTIVE:
                    break

    cdef int enter(self, QueuedPodInfo info, str label, dict tops, set passing) except -1:
        """Add a new pod, to its group if it has one. `tops` takes the trees of groups."""
        key = group_of(info.pod) if self.groups_pods else None
        if key is None:
            return self.move(info, ACTIVE, label)
        self.nominate_new(info, label)
        if key not in tops:
            tops[key] = self.settings.top_of(key)
        return self.join(info, tops[key], label, passing)

    cdef int join(self, QueuedPodInfo info, unit, str label, set passing) except -1:
        """Add a pod to the waiting pods of its group, or of the tree of its group (kube-scheduler v1.37,
        addPodGroupMember).

        While the group backs off or is gated, the pod waits with it. The first pod takes the group to the
        active queue. Upstream it does so even if its binding has failed several times in a row.
        """
        cdef QueuedGroupInfo group = self.groups.get(unit)
        self.changes += 1
        if group is None:
            group = QueuedGroupInfo(unit, info.timestamp)
            if info.consecutive_errors_count > 1:
                group.consecutive_errors_count = info.consecutive_errors_count
            strategy = AFTER_BACKOFF
        elif group.place is UNSCHEDULABLE or (group.place is ACTIVE and not self.is_gated(info, passing)):
            if group.place is ACTIVE:
                info.note_ready(self.now())
            self.add_member(group, info)
            return self.count(group, label)
        else:
            strategy = IMMEDIATELY if group.place is ACTIVE else AFTER_BACKOFF
            self.leave(group)
        group.join(info)
        return self.follow(strategy, group, label)

    cdef int add_member(self, QueuedGroupInfo group, QueuedPodInfo info) except -1:
        """Add a pod to a group that stays where it is, or whose attempt has not ended."""
        self.changes += 1
        group.join(info)
        self.infos[info.uid] = info
        if group.place is UNSCHEDULABLE:
            info.gating_plugin = group.gating_plugin
            self.unschedulable.enter(info)
        return 0

    def delete(self, pods not None):
        """Remove pods that are deleted or have a node now. A pod in flight stays there until its attempt
        ends."""
        with self:
            for pod in pods if self.infos or self.nominated else ():
                uid = UID.of(METADATA.of(pod))
                if uid in self.nominated:
                    self.nominator.delete_nominated_pod_if_exists(pod)
                if uid in self.infos:
                    self.remove(self.infos[uid], self.added)

    cdef int remove(self, QueuedPodInfo info, str label) except -1:
        """Remove a waiting pod. What is left of its group stays where it is, unless its backoff is over or
        PreEnqueue gates it."""
        cdef QueuedPodInfo entry = self.entry_of(info)
        place = entry.place
        if place is None:  # the attempt of its group has not ended
            self.changes += 1
            del self.infos[info.uid]
            info.group = None
        else:
            self.leave(entry)
        if entry is not info:
            (<QueuedGroupInfo>entry).part(info)
        if entry is info or place is None or not entry.size:
            return 0
        if place is ACTIVE or place is UNSCHEDULABLE:
            return self.put_anew(entry, place, label)
        return self.follow(AFTER_BACKOFF, entry, label)

    cdef int put_anew(self, QueuedPodInfo group, place, str label) except -1:
        """Add a group whose pods have changed to its former place, unless PreEnqueue keeps it out of the
        active queue."""
        if place is ACTIVE and self.is_gated(group, set()):
            return self.move(group, UNSCHEDULABLE, label)
        return self.put(group, place)

    def _replace(self, QueuedPodInfo info not None, pod):
        """Replace the state of a waiting pod, and move the pod where its rank has changed.

        Parameters
        ----------
        info : QueuedPodInfo
            The pod in its place, or in none, while the attempt of its group has not ended.
        pod : Pod
            Its new state.
        """
        cdef QueuedPodInfo entry = self.entry_of(info)
        place = info.place
        self.changes += 1
        if self.groups_pods and group_of(pod) != group_of(info.pod):  # as an annotation says
            self.remove(info, self.updated)
            info.pod, info.unit = pod, None
            self.enter(info, self.updated, {}, set())
            return
        if place is UNSCHEDULABLE:  # ordered by entry, not by rank
            self.unschedulable.replace(info, pod)
        elif place is not None:
            self.leave(entry)
        info.pod = pod
        if entry is not info:
            entry.pod = next(iter((<QueuedGroupInfo>entry).members.values())).pod
        if place is not None and place is not UNSCHEDULABLE:
            self.put(entry, place)

    def regroup(self, keys not None, deleted=None):
        """Find the groups of waiting pods anew, after a change of the groups. Pods that belong to another one
        now, and those of a group that was deleted, enter as new ones.

        Parameters
        ----------
        keys : iterable of UnitKey
            The groups whose pods may belong to others now.
        deleted : UnitKey, optional
            The group that was deleted, if one was.
        """
        with self:
            for group in [self.groups[key] for key in keys if key in self.groups]:
                self.divide(group, deleted, self.added)

    cdef int divide(self, QueuedGroupInfo group, deleted, str label) except -1:
        """Have the pods of a group enter again that belong to another one now, or to one that was deleted."""
        cdef QueuedPodInfo info
        top_of = self.settings.top_of
        named = [(info, group_of(info.pod)) for info in group.listed()]
        moving = [(info, key) for info, key in named if key == deleted or top_of(key) != group.unit]
        for info, _ in moving:
            self.remove(info, label)
        for info, key in moving:
            self.join(info, top_of(key), label, set())
        return 0

    # ---- attempts

    def pop(self, Py_ssize_t limit=1, timeout=0.0):
        """Remove the next pods from the queue. They are in flight until `done` or until they return to the
        queue.

        Parameters
        ----------
        limit : int, optional
            The number of pods without a group at most, at least 1.
        timeout : float, optional
            How long to wait for a pod, in seconds of real time; by default the call does not wait. None waits
            until `close`.

        Returns
        -------
        list of QueuedPodInfo
            Those that calls one by one would return, up to a change of place or priority. Where groups are
            tried together, either pods without a group, or all pods of each group, in the order of
            `group_order`; the last group may exceed the limit. Empty when the time is over, or when the queue
            is closed and empty.
        """
        cdef list infos
        with self:
            while not (infos := self.take(limit)) and timeout != 0 and not self.closed:
                self.waiting += 1
                try:  # a wait releases a single hold of the lock
                    is_over = not self.changed.wait_for(lambda: self.closed or self.has_next(), timeout)
                finally:
                    self.waiting -= 1
                if is_over:
                    break
            return infos

    def close(self):
        """Close the queue: threads in `pop` return, and every attempt ends."""
        with self:
            self.closed = True
            self.done(self.in_flight())
            self.changed.notify_all()

    cdef list take(self, Py_ssize_t limit):
        """Remove the next pods of one place; of the active queue those of one priority, under PrioritySort.
        They are in flight."""
        cdef QueuedPodInfo entry, info
        cdef list popped, infos = []
        cdef bint is_active
        if limit < 1:
            raise ValueError("a pod at least is wanted")
        while not infos and self.has_next():
            self.changes += 1
            self.flights.drop()
            is_active = self.active.size > 0
            popped = self.active.pop(limit) if is_active else self.backoff.rejected.pop(limit)
            if not is_active and self.incoming is not None:
                self.incoming["active", POP_FROM_BACKOFF] += len(popped)
            if (<QueuedPodInfo>popped[0]).unit is not None:
                for entry in popped:
                    del self.groups[entry.unit]
                popped = list(chain.from_iterable([(<QueuedGroupInfo>entry).released() for entry in popped]))
            for info in popped:
                del self.infos[info.uid]
                info.place = None
                info.attempts += 1
                if self.flights.take(info, ACTIVE if is_active else BACKOFF):
                    infos.append(info)
                else:
                    logger.error("pod %s is in flight already and is discarded", info.key)
        return infos

    def done(self, infos not None):
        """End the attempts of popped pods. Those that are not in flight are ignored."""
        with self:
            for info in infos:
                if self.flights.has(info):
                    self.flights.leave(info)

    def give_back(self, infos not None, latest not None, rejectors not None, nominating=None):
        """Return popped pods whose attempts failed, one after the other, and end the attempts (kube-scheduler
        v1.36, schedule_one.go handleSchedulingFailure and AddUnschedulablePodIfNotPresent).

        A pod with rejectors becomes unschedulable, unless an event since its pop makes it worth another
        attempt. Such a pod, and one without rejectors (after an error), backs off. A pod that was deleted or
        has a node does not return, nor one that is not in flight. A pod of a group returns with the group, at
        the end of the group's attempt; where that has ended, it joins the group in the queue.

        Parameters
        ----------
        latest : sequence of Pod or None
            The latest state of each pod, by namespace and name; None for none.
        rejectors : sequence of (frozenset of str, frozenset of str)
            The plugins that rejected each pod, and those among them that answered Pending; empty after an
            error.
        nominating : sequence of (NominatingInfo or None), optional
            The change of each pod's nomination; without one its latest status decides.

        Raises
        ------
        ValueError
            The sequences have different lengths.
        """
        cdef QueuedPodInfo info
        cdef Py_ssize_t at
        if not len(infos) == len(latest) == len(rejectors):
            raise ValueError("a state and rejectors of each pod are wanted")
        with self:
            clock = self.now
            self.now = partial(float, clock())  # they return at one time
            try:
                for at in range(len(infos)):
                    info = <QueuedPodInfo?>infos[at]
                    if self.flights.has(info):
                        nominate = None if nominating is None else nominating[at]
                        self.give_one_back(info, latest[at], rejectors[at], nominate)
            finally:
                self.now = clock

    cdef int give_one_back(self, QueuedPodInfo info, pod, plugins, change) except -1:
        """Return a pod in flight to the queue if it exists and has no node, and end its attempt."""
        if pod is not None and UID.of(METADATA.of(pod)) == info.uid and not NODE_NAME.of(SPEC.of(pod)) \
                and PHASE.of(STATUS.of(pod)) not in FINISHED:
            info.pod = pod
            self.take_back(info, plugins)
            nominates = change is not None and change.nominated_node_name
            if (nominates or self.has_nominations(pod)) and self.nominator.is_changed_by(pod, change):
                self.nominator.nominate_current(pod, change)
        return self.flights.leave(info)

    cdef int take_back(self, QueuedPodInfo info, plugins) except -1:
        """Return a pod in flight that exists and has no node to the queue. If the clock raises, the pod stays
        in flight."""
        cdef QueuedPodInfo waiting = self.infos.get(info.uid)
        if waiting is not None and waiting.place is not None:
            logger.error("Pod %s is already present in %s", info.key, QUEUES[waiting.place][1])
            return 0
        info.note_failure(plugins, self.now(), not (plugins[0] or plugins[1]))
        if info.unit is None:
            strategy = SKIP if info.rejectors else AFTER_BACKOFF
            if info.rejectors and (events := self.flights.since(info.cursor)):
                strategy = self.hints.strategy_of_all(info, events)
            return self.follow(strategy, info, FAILED)
        if info.group is not None and info.group.place is None:
            return self.add_member(info.group, info)
        info.group = None
        return self.join(info, self.settings.top_of(group_of(info.pod) or info.unit), self.added, set())

    def put_back(self, infos not None):
        """Return popped pods that were not tried to their former place, as if they had not been popped. Those
        that are not in flight are ignored."""
        cdef QueuedPodInfo info
        with self:
            for info in sorted(infos, key=_arrival):
                if self.flights.has(info):
                    self.flights.leave(info)
                    info.attempts -= 1
                    self.put_back_one(info)

    cdef int put_back_one(self, QueuedPodInfo info) except -1:
        """Return a popped pod to its place, with its group if that was popped with it."""
        cdef QueuedPodInfo member
        group, info.group = info.group, None
        if info.unit is None:
            return self.put(info, info.origin)
        if group is None:  # it has ended its attempt
            return self.join(info, self.settings.top_of(group_of(info.pod)), self.added, set())
        if group.place is not None:
            return self.add_member(group, info)
        group.attempts -= 1
        group.join(info)
        for member in group.listed():
            member.group = None
        if self.take_newer(group):
            return self.put_anew(group, info.origin, self.added)
        return self.put(group, info.origin)

    cdef bint take_newer(self, QueuedGroupInfo group) except -1:
        """Add the pods to a popped group that have come since its pop; return whether there are any."""
        cdef QueuedGroupInfo newer = self.groups.get(group.unit)
        if newer is None:
            return False
        self.leave(newer)
        for info in newer.listed():
            group.join(info)
        return True

    def end_attempts(self, infos not None, bint succeeded=True, bint is_error=False):
        """End the attempts of groups, after their failed pods were given back: these return to the queue,
        with those that came meanwhile (kube-scheduler v1.37, AddAttemptedPodGroupIfNeeded).

        Parameters
        ----------
        infos : sequence of QueuedPodInfo
            All pods that were popped with the groups.
        succeeded : bool, optional
            Then the pods that are left are tried again at once, and keep the age of the group.
        is_error : bool, optional
            Whether the attempts failed with an error.
        """
        with self:
            groups = dict.fromkeys([popped.group for popped in infos])
            for popped in infos:
                popped.group = None
            for group in groups:
                if group is not None and group.size and group.place is None:  # else it was put back
                    self.end_attempt(group, succeeded, is_error)

    cdef int end_attempt(self, QueuedGroupInfo group, bint succeeded, bint is_error) except -1:
        """End the attempt of a group that has pods left."""
        cdef QueuedPodInfo info
        self.take_newer(group)
        # Bindings that fail again and again: the attempts have to end.
        fails = succeeded and any([info.consecutive_errors_count > 1 for info in group.listed()])
        is_over = succeeded and not fails
        group.note_failure(NO_PLUGINS, group.timestamp if is_over else self.now(), is_error or fails)
        if is_over:
            group.unschedulable_count = group.consecutive_errors_count = 0
        self.follow(IMMEDIATELY if is_over else AFTER_BACKOFF, group, FAILED)
        return self.divide(group, None, FAILED)  # as trees may have changed

    # ---- events

    def follow_nominations(self, notices not None):
        """Enter the leading pods whose nomination was written to their status, and is known already: the pod
        waits in the active or the backoff queue, and was the last that was nominated to its node.

        Returns
        -------
        int
            The number of leading notices of that kind.
        """
        cdef Py_ssize_t count = 0
        with self, self.nominator.lock:
            self.changes += 1
            for notice in notices:
                if not self.follow_nomination(notice):
                    break
                count += 1
            return count

    cdef bint follow_nomination(self, Notice notice) except -1:
        """Enter a pod whose nomination is known, if a notice is of that kind; return whether it is."""
        cdef QueuedPodInfo info
        cdef dict pods
        if notice.cause != Cause.NOMINATED:
            return False
        old, new = notice.old, notice.new
        info = self.infos.get(UID.of(METADATA.of(new)))
        if info is None or info.place is UNSCHEDULABLE or info.pod is not old:
            return False
        node = NOMINATED_NODE_NAME.of(STATUS.of(new))
        if not node or NOMINATED_NODE_NAME.of(STATUS.of(old)) or self.nominated.get(info.uid) != node:
            return False
        pods = self.nominator.by_node[node]
        if next(reversed(pods)) != info.uid:
            return False
        pods[info.uid] = info.pod = new
        return True

    # ---- transactions

    def save(self):
        """Return the state of all pods, for `undo`."""
        with self:
            return self.save_entries(), self.flights.save(), self.fired, self.nominator.save()

    cdef tuple save_entries(self):
        """Return the state of every waiting pod: that of the last result, if none has changed since."""
        if self.saved is None or self.saved[0] != self.changes:
            entries = chain(self.infos.values(), self.groups.values())
            copies = [(entry, (<QueuedPodInfo>entry).__copy__()) for entry in entries]
            self.saved = self.changes, copies, self.number
        return self.saved

    def undo(self, saved):
        """Restore the state of `save`."""
        with self:
            (changes, copies, self.number), in_flight, self.fired, nominated = saved
            self.flights.undo(in_flight)
            self.nominator.undo(nominated)
            if changes != self.changes:
                for entry, then in copies:
                    (<QueuedPodInfo?>entry).assign(then)
                self.adopt([entry for entry, _ in copies])
                self.saved = self.changes, copies, self.number

    def copy_from(self, PodQueue other not None):
        """Take copies of the pods of another queue, and its nominations.

        Parameters
        ----------
        other : SchedulingQueue
            With the same plugins.
        """
        cdef QueuedPodInfo info
        with other, self:
            _, copies, self.number = other.save_entries()
            self.flights.copy_from(other.flights)
            self.fired = other.fired
            entries = [(<QueuedPodInfo>then).__copy__() for _, then in copies]
            for info in chain(entries, self.flights):
                info.group = None  # that of the other queue
            self.adopt(entries)
            self.nominator.undo(other.nominator.save())

    cdef int adopt(self, list entries) except -1:
        """Replace all waiting pods and groups."""
        cdef QueuedPodInfo entry
        self.infos = {entry.uid: entry for entry in entries if type(entry) is QueuedPodInfo}
        self.groups = {entry.unit: entry for entry in entries if type(entry) is QueuedGroupInfo}
        return self.rebuild()

    def repair(self):
        """Make all places consistent after an exception that may have interrupted an operation.

        `infos` decides: a pod that was between two places then is in none.
        """
        with self:
            self.rebuild()
            self.flights.rebuild(self.infos)
            self.nominator.rebuild()

    cdef int rebuild(self) except -1:
        """Rebuild every place from `infos`. Each pod keeps its place and its position there."""
        cdef QueuedPodInfo info
        cdef QueuedGroupInfo attempted, group
        cdef dict known = self.groups, groups = {}
        self.clear()
        for info in sorted(self.infos.values(), key=ORDER):
            if info.unit is None:
                self.put(info, info.place or ACTIVE)
                continue
            attempted, info.group = info.group, None
            if attempted is not None and info.uid in attempted.members:
                attempted.part(info)
            group = groups.get(info.unit)
            if group is None:
                group = groups[info.unit] = known.get(info.unit) or QueuedGroupInfo(info.unit, info.timestamp)
                group.clear()
            group.join(info)
        for group in groups.values():
            self.put(group, group.place or ACTIVE)
        return 0


def _arrival(QueuedPodInfo info not None):
    """Where a popped pod was among those of its group, whose first sets its priority; 0 without a group."""
    return 0 if info.group is None else info.order
