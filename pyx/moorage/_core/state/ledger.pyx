# cython: auto_pickle=False
"""The ledger: all pods in the cache, with class, row and state. Their usage is in the node table.

The states of a pod are those of kube-scheduler's cache (backend/cache/interface.go): Initial, Assumed, Added,
Expired, Deleted. Only assumed and added pods are in the ledger.
"""

from functools import partial

import numpy as np

cimport cython
from cpython.ref cimport Py_REFCNT

from moorage._core.base cimport (
    ANNOTATIONS, DELETION_TIMESTAMP, METADATA, SPEC, STATUS, UID, VOLUMES, Deadline, Field, WatchEvent,
    group_of, made,
)
from moorage._core.base.watch_events cimport _identity, _uid
from moorage._core.csrc cimport MR_NOT_STARTED
from moorage._core.state.pod_spec cimport uses_volumes

cdef enum:
    LATER = -1
    READINGS = 3  # of all pods, before lists of the pods of each class are made, which costs about as much

cdef Field START_TIME = Field("start_time"), SCHEDULING_GROUP = Field("scheduling_group")
cdef double NEVER = LATER  # the deadline of a pod that has none


@cython.no_gc  # cannot be part of a reference cycle, and thousands are created at a time
@cython.freelist(64)
cdef class RowPods:
    """The pods of a row at one moment, shared with copies of the row.

    The ledger fills it in before the first change of the row; `Ledger.read` returns its pods. Replicas are
    stored as (Replicas, ordinal) until they are read, and pods as the event that makes them. One that is used
    again keeps its list until it is filled in, as most pods of the row are the same then.
    """

    cdef list read(self):
        """Return the pod objects, creating those of replicas."""
        cdef list ordinals = self.ordinals
        if ordinals is not None:
            self.pods = [
                (<Replicas>pod).make(ordinal) if isinstance(pod, Replicas) else made(pod)
                for pod, ordinal in zip(list(self.pods), ordinals, strict=True)
            ]
            self.ordinals = None
        return list(self.pods)


cdef class ClassLists:
    """The numbers of all pods by class, at one moment.

    A pod that leaves is a free record then, so that only a pod that enters or a rollback puts it out of date.

    Parameters
    ----------
    entered, undone : int
        Of the ledger and its journal at that moment.
    """

    def __cinit__(self, int64_t entered, int64_t undone):
        self.entered, self.undone = entered, undone

    cdef int fill(self, Ledger ledger) except -1:
        """List the pods of each class, in the order of their numbers."""
        cdef int32_t used = ledger.sums().used, number, pod_class, classes = 0
        cdef int32_t[::1] starts, ends
        for number in range(used):
            classes = max(classes, ledger.record(number).pod_class + 1)
        starts = np.zeros(classes + 1, dtype=np.int32)
        for number in range(used):
            starts[ledger.record(number).pod_class + 1] += 1
        for pod_class in range(classes):
            starts[pod_class + 1] += starts[pod_class]
        ends = starts.copy()
        self.starts, self.numbers = starts, np.empty(used, dtype=np.int32)
        for number in range(used):
            pod_class = ledger.record(number).pod_class
            self.numbers[ends[pod_class]] = number
            ends[pod_class] += 1

    cdef inline int32_t first(self, int32_t pod_class) noexcept:
        """Return where the pods of a class begin in `numbers`."""
        return self.starts[min(pod_class, <int32_t>self.starts.shape[0] - 1)]


cdef class Ledger:
    """Pods by number. Numbers of removed pods are reused, the most recently freed first.

    A pod either has an object, and `index` maps its UID to its number; or it is a replica of a template, and
    `templates` computes its number from the UID. The pods of a row form a linked list in the order of their
    addition, except that a removal moves the last pod into the gap, as NodeInfo.RemovePod of kube-scheduler
    v1.36 does.

    Parameters
    ----------
    journal : Journal
        Records the changes.
    symbols : Symbols
        Has those of groups.
    """

    def __cinit__(self, Journal journal not None, Symbols symbols not None):
        self.journal = journal
        self.symbols = symbols
        self.index = StringIndex()
        self.objects = []
        self.row_pods = []
        self.templates = Templates(journal)
        self.pods = Buffer(journal, sizeof(PodRecord))
        self.rows = Buffer(journal, sizeof(RowRecord))
        self.totals = Buffer(journal, sizeof(Totals), 1)
        self.deadlines = Deadlines(journal)
        self.make_room(0)

    def __len__(self):
        return self.sums().alive

    cdef Ledger clone(self, Journal journal):
        """Return an independent copy that shares the pod objects."""
        cdef Ledger out = Ledger(journal, self.symbols)
        out.index = self.index.clone()
        out.objects = self.objects.copy()
        out.row_pods = [None] * len(self.row_pods)
        out.templates = self.templates.clone(journal)
        out.pods.copy_from(self.pods)
        out.rows.copy_from(self.rows)
        out.totals.copy_from(self.totals)
        out.deadlines = self.deadlines.clone(journal)
        return out

    cdef int32_t find(self, str uid) except -2:
        """Return the number of the pod with a UID, or -1."""
        cdef int32_t number = self.index.find(uid, -1)
        return self.templates.find(uid) if number < 0 else number

    cdef str uid_of(self, int32_t number):
        """Return the UID of a pod."""
        cdef PodRecord* pod = self.record(number)
        if pod.origin:
            return self.templates.entry(pod.origin - 1).uid(pod.ordinal)
        return _uid(self.objects[number])

    cdef object object_of(self, int32_t number):
        """Return the pod object as it was added; that of a replica is created."""
        cdef PodRecord* pod = self.record(number)
        if pod.origin:
            return self.templates.entry(pod.origin - 1).make(pod.ordinal)
        held = self.objects[number]
        if type(held) is WatchEvent:
            held = self.objects[number] = (<WatchEvent>held).read()
        return held

    cdef object model_of(self, int32_t number):
        """Return an object that differs from the pod at most in what a binding sets; a replica's template."""
        cdef PodRecord* pod = self.record(number)
        if pod.origin:
            return self.templates.entry(pod.origin - 1).template
        held = self.objects[number]
        return _identity(held)

    # ---- memory --------------------------------------------------------------------------------------------

    cdef int reserve_rows(self, Py_ssize_t rows) except -1:
        """Make room for `rows` rows in all."""
        self.rows.reserve(rows)
        while len(self.row_pods) < rows:
            self.row_pods.append(None)

    cdef int make_room(self, Py_ssize_t pods, bint are_replicas=False) except -1:
        """Make room for `pods` more pods, or for that many replicas of one template."""
        _reserve(self, pods)
        if are_replicas:
            self.templates.reserve(pods)
        else:
            self.index.reserve(len(self.index) + pods)

    # ---- rows ----------------------------------------------------------------------------------------------

    cdef RowPods share(self, int32_t row, RowPods before=None):
        """Return the pods of a row at this moment, filled in when the row changes or when they are read.

        `before` is what the caller has of an earlier moment and drops. It is used again if only a list and a
        variable of the caller refer to it.
        """
        cdef RowPods out
        if row >= len(self.row_pods):
            self.reserve_rows(row + 1)
        out = self.row_pods[row]
        if out is None:
            if before is not None and Py_REFCNT(before) == 2:
                out = before
                out.is_filled = False
            else:
                out = RowPods()
            self.row_pods[row] = out
            self.row(row).shared = True
            if self.journal.depth:  # a rollback fills it in before it restores the row
                self.journal.on_undo(partial(self._filled, row))
        return out

    def _filled(self, int32_t row):
        """Call `_fill_shared` from the journal."""
        if not 0 <= row < self.rows.capacity:
            raise IndexError(f"there is no row {row}")
        self._fill_shared(row)

    cdef int _fill(self, int32_t row) except -1:
        """Fill in the shared pod list of a row, and stop sharing it."""
        cdef RowPods shared = self.row_pods[row]
        if shared is not None and not shared.is_filled:
            _list(self, shared, row)
        self.row_pods[row] = None
        self.rows.touch(row)  # a rollback may set the flag again, which is harmless; it must never clear it
        self.row(row).shared = False

    cdef list read(self, RowPods shared, int32_t row):
        """Return the pod objects of a row at the moment when it was shared."""
        if not shared.is_filled:
            _list(self, shared, row)
        return shared.read()

    def pods_of(self, int32_t row):
        """Return the pod objects of a row, in the order of the row.

        Parameters
        ----------
        row : int

        Returns
        -------
        list of Pod
            Empty if there is no such row. The objects do not name their node if they were added unbound.
        """
        cdef RowPods out = RowPods()
        _list(self, out, row)
        return out.read()

    def follow_volumes(self, int32_t row, dict known not None):
        """Bring up to date what is known of the pods of a row that use volumes, as `uses_volumes` defines
        it.

        No object of a pod is made that is known by its event alone: what a binding sets, conditions and the
        resource version may be of an earlier state.

        Parameters
        ----------
        row : int
        known : dict of str to Pod
            The pods at an earlier moment by UID; updated.

        Returns
        -------
        left : list of Pod
            Pods that are no longer there, or were there with other volumes.
        joined : list of Pod
            Pods that were not there, or have other volumes now, in the order of the row.
        """
        cdef list uids = [], left = [], joined = []
        cdef Py_ssize_t n = self.pods_on(row)
        cdef int32_t number = self.row(row).first if n else 0
        cdef str uid
        for _ in range(n):
            pod = self.model_of(number)
            if uses_volumes(pod):
                uid = self.uid_of(number)
                uids.append(uid)
                was = known.get(uid)
                if was is not pod:
                    if self.record(number).origin:
                        pod = self.object_of(number)
                    if was is None or VOLUMES.of(SPEC.of(was)) != VOLUMES.of(SPEC.of(pod)):
                        joined.append(pod)
                        if was is not None:
                            left.append(was)
                    known[uid] = pod
            number = self.record(number).after
        if len(uids) < len(known):
            there = set(uids)
            for uid in [uid for uid in known if uid not in there]:
                left.append(known.pop(uid))
        return left, joined

    # ---- pods ----------------------------------------------------------------------------------------------

    cdef int32_t insert(self, object pod, int32_t pod_class, int32_t row, PodState state) except -1:
        """Add a pod that is not in the ledger; return its number."""
        cdef NewPod new
        new.place, new.pod_class, new.row, new.state = -1, pod_class, row, state
        self.describe(pod, &new)
        return self.enter(pod, &new)

    cdef int describe(self, object pod, NewPod* out) except -1:
        """Read what `enter` needs of a pod, besides its class, row and state."""
        meta = METADATA.of(pod)
        self.templates.note_stray(UID.of(meta))
        out.terminating = DELETION_TIMESTAMP.of(meta) is not None
        out.group, out.start = _group(self, pod), _start(pod)

    cdef int32_t enter(self, object pod, const NewPod* new) except -1:
        """Add a pod of which `describe` has read the rest; return its number."""
        cdef int32_t number
        _reserve(self, 1)
        self.reserve_rows(new.row + 1)
        self._fill_shared(new.row)
        number = _next_number(self)
        if self.journal.depth:
            self.journal.on_undo(partial(self._strike, number, UID.of(METADATA.of(pod))))
        if self.watched:
            _note_moved(self, UID.of(METADATA.of(pod)))
        # What needs memory comes first: outside of a transaction nothing undoes the rest.
        if new.place < 0:
            self.index.put(UID.of(METADATA.of(pod)), number)
        else:
            self.index.slots[new.place].value = number
        self.objects[number] = pod
        _enter(self, new.row, new.pod_class, new.terminating, <PodState>new.state)
        self.record(number).start, self.record(number).group = new.start, new.group
        return number

    cdef int insert_replicas(self, Replicas replicas, int32_t pod_class, const int32_t[::1] rows) except -1:
        """Add assumed replicas of a template, one on each of `rows`."""
        cdef bint terminating = replicas.template.metadata.deletion_timestamp is not None
        cdef int32_t at, number, group = _group(self, replicas.template)
        cdef int64_t start = _start(replicas.template)
        cdef int32_t* numbers
        self.make_room(replicas.count, True)
        # What needs memory comes first: outside of a transaction nothing undoes the rest.
        for at in range(replicas.count):
            if at + AHEAD < replicas.count:
                prefetch(self.row(rows[at + AHEAD]))
            self._fill_shared(rows[at])
            if self.watched:
                _note_moved(self, replicas.uid(replicas.first + at))
        self.templates.enter(replicas)
        numbers = self.templates.numbers(replicas.id)
        for at in range(replicas.count):
            if at + 2 * AHEAD < replicas.count:
                prefetch(self.row(rows[at + 2 * AHEAD]))
                prefetch(self.record(self.row(rows[at + AHEAD]).last))
            number = _enter(self, rows[at], pod_class, terminating, ASSUMED)
            self.record(number).origin = replicas.id + 1
            self.record(number).ordinal = replicas.first + at
            self.record(number).start, self.record(number).group = start, group
            numbers[at] = number

    def _strike(self, int32_t number, str uid):
        """Undo the entry of a pod in `objects` and `index`, which can have failed half-way."""
        _check_number(self, number)
        self.objects[number] = None
        self.index.remove(uid)

    def _put_back(self, int32_t number, str uid, pod):
        """Restore the entry of a pod in `objects` and `index`."""
        _check_number(self, number)
        self.objects[number] = pod
        self.index.put(uid, number)

    cdef int remove(self, int32_t number) except -1:
        """Remove a pod and free its number."""
        cdef Totals* totals = self.sums()
        cdef PodRecord* pod = self.record(number)
        self._fill_shared(pod.row)
        if self.watched:
            _note_moved(self, self.uid_of(number))
        if self.journal.depth:
            self.totals.touch(0)
            self.pods.touch(number)
        if pod.origin:
            self.templates.leave(pod.origin - 1, pod.ordinal)
        _unlink(self, number)
        pod.state = FREE
        pod.deadline = NEVER
        pod.after = totals.free
        totals.free = number + 1
        totals.alive -= 1
        if pod.origin:
            return 0
        held, uid = self.objects[number], self.uid_of(number)
        if self.journal.depth:
            self.journal.on_undo(partial(self._put_back, number, uid, held))
        self.objects[number] = None
        self.index.remove(uid)
        return 0

    cdef int confirm(self, int32_t number, object pod=None) except -1:
        """Make an assumed pod an added one on the same row, moving it to the end of the row.

        With `pod`, allowed outside of transactions only, it gets a new object, also if it was a replica: the
        pod, or the event that binds it.
        """
        cdef PodRecord* record = self.record(number)
        cdef int32_t row = record.row, group = record.group
        cdef int64_t start = record.start
        cdef str uid
        if pod is not None and type(pod) is not WatchEvent:  # a binding sets neither
            group, start = _group(self, pod), _start(pod)
        self._fill_shared(row)
        if pod is not None and record.origin:  # first what needs memory
            uid = _uid(pod)
            self.templates.note_stray(uid)
            self.index.put(uid, number)
            try:
                self.templates.leave(record.origin - 1, record.ordinal)
            except BaseException:
                self.index.remove(uid)
                raise
            record.origin = 0
        if self.journal.depth:
            self.pods.touch(number)
        _unlink(self, number)
        record.state = ADDED
        record.deadline = NEVER
        _append(self, number, row)
        if pod is not None:
            self.objects[number] = pod
            record.start, record.group = start, group

    cdef bint has_any(self, const unsigned char[::1] matching) noexcept:
        """Whether the ledger has a pod whose class `matching`, indexed by class, selects.

        The search begins where the last one ended.
        """
        cdef int32_t used = self.sums().used, number
        cdef PodRecord* pod
        if self.found >= used:
            self.found = 0
        for _ in range(used):
            number = self.found
            pod = self.record(number)
            if pod.state != FREE and matching[pod.pod_class]:
                return True
            self.found = number + 1 if number + 1 < used else 0
        return False

    cdef int count(self, set classes, bint all_pods, int32_t* pods) except -1:
        """Add to `pods`, by row, the number of pods of some classes; without `all_pods` terminating pods do
        not count.

        All pods are read for it, but from the fourth time on, while none enters, those of the classes alone.
        """
        cdef ClassLists lists = self.lists
        cdef unsigned char[::1] matching
        cdef int32_t number, pod_class, at
        if lists is None or lists.entered != self.entered or lists.undone != self.journal.undone:
            lists = self.lists = ClassLists(self.entered, self.journal.undone)
        if lists.readings == READINGS:
            lists.fill(self)
        lists.readings += 1
        if lists.readings > READINGS:
            for pod_class in classes:
                for at in range(lists.first(pod_class), lists.first(pod_class + 1)):
                    _count(self.record(lists.numbers[at]), all_pods, pods)
            return 0
        matching = np.zeros(max(classes, default=0) + 1, dtype=np.uint8)
        for pod_class in classes:
            matching[pod_class] = True
        for number in range(self.sums().used):
            pod_class = self.record(number).pod_class
            if pod_class < matching.shape[0] and matching[pod_class]:
                _count(self.record(number), all_pods, pods)

    cdef int classify_anew(self, PodClasses classes) except -1:
        """Set the classes of all pods, after `PodClasses.begin_anew`; outside of a transaction."""
        cdef int32_t number
        cdef PodRecord* pod
        self.lists = None
        for number in range(self.sums().used):
            pod = self.record(number)
            pod.pod_class = 0 if pod.state == FREE else classes.intern(self.model_of(number))
        return 0

    # ---- expiry --------------------------------------------------------------------------------------------

    cdef int set_deadline(self, int32_t number, double deadline) except -1:
        """Set the deadline of an assumed pod, in seconds on the caller's clock."""
        # An entry of the heap is valid only while the pod still has the same deadline.
        if deadline != INFINITY:
            self.deadlines.push(Deadline(deadline, number))
        self.pods.touch(number)
        self.record(number).deadline = deadline

    cdef list expired(self, double now):
        """Return the numbers of the assumed pods whose deadline is strictly before `now`, earliest first.

        Their deadlines are removed.
        """
        cdef Deadline hint
        cdef PodRecord* pod
        cdef list out = []
        while self.deadlines.size() and self.deadlines.first().when < now:
            hint = self.deadlines.first()
            self.deadlines.pop()
            pod = self.record(hint.number)
            if pod.state == ASSUMED and pod.deadline == hint.when:
                self.pods.touch(hint.number)
                pod.deadline = NEVER
                out.append(hint.number)
        return out

    def assumed(self):
        """Return the UIDs of the assumed pods, sorted."""
        cdef int32_t number
        return sorted([
            self.uid_of(number)
            for number in range(self.sums().used)
            if self.record(number).state == ASSUMED
        ])

    cdef list binding(self):
        """Return the numbers of the assumed pods without a deadline, sorted by UID."""
        cdef int32_t number
        return [number for _, number in sorted([
            (self.uid_of(number), number)
            for number in range(self.sums().used)
            if self.record(number).state == ASSUMED and self.record(number).deadline == NEVER
        ])]


cdef int _check_number(Ledger ledger, int32_t number) except -1:
    """Check that a number is one of those that there is room for."""
    if not 0 <= number < <int32_t>len(ledger.objects):
        raise IndexError(f"there is no pod {number}")
    return 0


cdef int _reserve(Ledger ledger, Py_ssize_t pods) except -1:
    """Make room for `pods` more pods."""
    cdef Py_ssize_t need = ledger.sums().alive + pods
    cdef Py_ssize_t size = len(ledger.objects)
    ledger.pods.reserve(need)
    if size < need:  # not derived from the capacity of `pods`: an earlier call may have failed here
        ledger.objects.extend([None] * (max(need, 2 * size) - size))


cdef int _list(Ledger ledger, RowPods out, int32_t row) except -1:
    """Write the pods of a row to `out`, in place of those of an earlier moment."""
    cdef Py_ssize_t at, n = ledger.pods_on(row)
    cdef list pods = out.pods, ordinals = None
    cdef int32_t number = ledger.row(row).first if n else 0
    cdef PodRecord* pod
    if pods is None:
        pods = out.pods = [None] * n
    elif len(pods) > n:
        del pods[n:]
    elif len(pods) < n:
        pods.extend([None] * (n - len(pods)))
    for at in range(n):
        pod = ledger.record(number)
        if pod.origin:
            if ordinals is None:
                ordinals = [0] * n
            pods[at] = ledger.templates.entry(pod.origin - 1)
            ordinals[at] = pod.ordinal
        else:
            held = ledger.objects[number]
            if pods[at] is not held:
                pods[at] = held
            if type(held) is WatchEvent and ordinals is None:
                ordinals = [0] * n
        number = pod.after
    out.ordinals = ordinals
    out.is_filled = True


cdef int _append(Ledger ledger, int32_t number, int32_t row) except -1:
    """Link a pod, whose record has been touched, as the last one of a row."""
    cdef PodRecord* pods = <PodRecord*>ledger.pods.data
    cdef RowRecord* pods_of = ledger.row(row)
    if ledger.journal.depth:
        ledger.rows.touch(row)
        if pods_of.count:
            ledger.pods.touch(pods_of.last)
    if pods_of.count:
        pods[pods_of.last].after = number
    else:
        pods_of.first = number
    pods[number].row = row
    pods[number].before = pods_of.last
    pods[number].after = 0
    pods_of.last = number
    pods_of.count += 1


cdef inline void _count(const PodRecord* pod, bint all_pods, int32_t* pods) noexcept:
    """Add a pod to the number of its row."""
    if pod.state != FREE and (all_pods or not pod.terminating):
        pods[pod.row] += 1


cdef inline int32_t _next_number(Ledger ledger) noexcept:
    """Return the number that the next pod gets."""
    cdef Totals* totals = ledger.sums()
    return totals.free - 1 if totals.free else totals.used


cdef int32_t _enter(Ledger ledger, int32_t row, int32_t pod_class, bint terminating,
                    PodState state) except -1:
    """Add a record at the end of a row, in memory that has been reserved; return its number."""
    cdef Totals* totals = ledger.sums()
    cdef int32_t number = _next_number(ledger)
    cdef PodRecord* pod = ledger.record(number)
    if ledger.journal.depth:
        ledger.totals.touch(0)
        ledger.pods.touch(number)
    if totals.free:
        totals.free = pod.after
    else:
        totals.used += 1
    totals.alive += 1
    ledger.entered += 1
    pod.deadline = NEVER
    pod.pod_class = pod_class
    pod.origin = pod.ordinal = 0
    pod.state = state
    pod.terminating = terminating
    _append(ledger, number, row)
    return number


cdef int _note_moved(Ledger ledger, str uid) except -1:
    """Record in `moved` that a watched pod was added or removed; an undo records it again."""
    item = ledger.watched.get(uid) if ledger.watched else None
    if item:
        ledger.moved.append(item)
        if ledger.journal.depth:
            ledger.journal.on_undo(partial(ledger.moved.append, item))


cdef int _unlink(Ledger ledger, int32_t number) except -1:
    """Unlink a pod, whose record has been touched, from its row; the last pod moves into the gap."""
    cdef PodRecord* pods = <PodRecord*>ledger.pods.data
    cdef PodRecord* gone = pods + number
    cdef RowRecord* pods_of = ledger.row(gone.row)
    cdef int32_t last = pods_of.last
    if ledger.journal.depth:
        ledger.rows.touch(gone.row)
        ledger.pods.touch(last)
        ledger.pods.touch(gone.before)
        ledger.pods.touch(gone.after)
    pods_of.count -= 1
    if last == number:
        pods_of.last = gone.before
        return 0
    if pods[last].before != number:
        pods_of.last = pods[last].before
        pods[last].after = gone.after
        pods[gone.after].before = last
    pods[last].before = gone.before
    if pods_of.first == number:
        pods_of.first = last
    else:
        pods[gone.before].after = last


cdef int32_t _group(Ledger ledger, object pod) except -1:
    """Return the symbol of a pod's group, or 0."""
    cdef tuple key
    if SCHEDULING_GROUP.of(SPEC.of(pod)) is None and not ANNOTATIONS.of(METADATA.of(pod)):  # as most pods
        return 0
    key = group_of(pod)
    return 0 if key is None else ledger.symbols.intern("/".join(key))


cdef int64_t _start(object pod) except 0:
    """Return what is known of when a pod was started, without reading the time."""
    return MR_NOT_STARTED if START_TIME.of(STATUS.of(pod)) is None else INT64_MIN
