"""Importance: the pods of each row in the order of preemption, the most important first.

Higher priority comes first, then the earlier start (kube-scheduler v1.36, MoreImportantPod). Pods that have
not started are the youngest. Equal pods stay in the order of the row if they are few: upstream sorts the pods
below the priority of the preemptor with Go's sort.Slice, which does so up to 12 pods and leaves equal ones of
more pods in an order of its own. Since v1.38 their UIDs decide. A row is sorted when it is first read, again
after the change log has named it, and where that order differs for the next preemptor.

Pods of a group are evicted with the priority of the group, or of that at the top of its tree. Those of some
groups are only evicted together, on whichever rows they are (kube-scheduler v1.37,
framework/preemption/types.go; KEP-5710). Such a unit has one entry in each row with pods of it
(`UnitIndex`). Of equal priority, units with more pods come first, then single pods of groups, then other
pods; of these the one with the oldest pod.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np

from moorage.errors import InputError

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from moorage._core.base cimport LOG_ORDER, Buffer, Journal, group_of
from moorage._core.csrc cimport *
from moorage._core.state cimport Ledger, NodeTable, PodClasses, PodRecord, Shape

cdef enum:
    CHANGED_LIMIT = 1 << 14  # the longest list of changed rows

cdef int64_t OWN = 1, BIAS = <int64_t>1 << 32  # see `UnitIndex.priorities`

cdef int64_t SUMMAND = <int64_t>1 << 50  # thousands of these can be added without overflow

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def start_time(pod):
    """Return when a pod was started.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    int
        Microseconds since 1970. A pod that was not started is the youngest (INT64_MAX), as upstream takes the
        present time for it.

    Raises
    ------
    InputError
        The field is not a time.
    """
    text = pod.status.start_time
    if text is None:
        return MR_NOT_STARTED
    try:
        return _microseconds(text)
    except ValueError as error:
        raise InputError(f"pod {pod.key}: status.startTime {text!r} is not a time") from error


@lru_cache(1 << 16)
def _microseconds(text):
    """Microseconds since 1970 of an RFC 3339 time. UTC is assumed where there is no offset."""
    start = datetime.fromisoformat(text)
    return ((start if start.tzinfo else start.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def order_as_upstream(const int64_t[::1] ranks not None):
    """Return the order of items by rank in which kube-scheduler has them.

    It sorts with Go's sort.Slice, which leaves items of equal rank in an order of its own if there are more
    than 12 items.

    Parameters
    ----------
    ranks : (n,) int64 array
        By item; smaller ones come first.

    Returns
    -------
    (n,) int32 array
        The indexes of the items.
    """
    cdef int32_t n = <int32_t>ranks.shape[0], at
    cdef Buffer entries = Buffer(Journal(), sizeof(mr_pod_entry), n + 1)
    cdef mr_pod_entry* items = <mr_pod_entry*>entries.data
    cdef int32_t[::1] order
    for at in range(n):
        items[at].start, items[at].number, items[at].priority, items[at].members = ranks[at], at, 0, 0
    mr_sort_as_upstream(items, n)
    out = np.empty(n, dtype=np.int32)
    order = out
    for at in range(n):
        order[at] = items[at].number
    return out


cdef class UnitIndex:
    """The priorities of groups, and the groups whose pods are only evicted together, with their pods in the
    ledger.

    When a row changes, the units that its pods were or are in read their members again, and all rows with
    members are to be sorted again. The members of a unit are put into their order when it is evicted, or when
    budgets count (`settle`).

    Parameters
    ----------
    table : NodeTable
    classes : PodClasses
    ledger : Ledger
    """

    def __cinit__(self, NodeTable table not None, PodClasses classes not None, Ledger ledger not None):
        cdef Journal journal = Journal()
        self.table, self.classes, self.ledger = table, classes, ledger
        self.keys, self.members, self.changed = [], [], []
        self.touched, self.stale, self.on_row, self.unsettled = {}, {}, {}, {}
        self.whole, self.unit_of, self.answers = {}, {}, None
        self.priorities = Buffer(journal, sizeof(int64_t))
        self.units = Buffer(journal, sizeof(mr_unit))
        self.of_symbol = Buffer(journal, sizeof(int32_t))
        self.seen = Buffer(journal, sizeof(int64_t))

    cdef bint use(self, object source) except -1:
        """Take the groups from a source; return whether units or priorities may be other ones than before.

        `source.ranks_members` is whether single pods of groups go before other pods, with that priority:
        `source.priority_of` returns the priority with which pods of a pod group are evicted, or None for that
        of each pod; `source.priorities()` another object whenever an answer has changed.
        `source.whole` has the priority of each group that is evicted as a whole, by key: another object
        whenever anything of this changes;
        `source.evicted_with` the keys of such groups by pod group; `source.members` returns the pods of a
        group, equal ones in their order of importance.
        """
        cdef Py_ssize_t at
        cdef Buffer members
        whole = {} if source is None else source.whole
        answers = None if source is None else source.priorities()
        if whole is self.whole and answers is self.answers and source is self.source:
            return False
        unit_of = {} if source is None else source.evicted_with
        is_equal = whole == self.whole and unit_of == self.unit_of and (source is self.source or not whole)
        is_equal = is_equal and answers is self.answers
        self.source, self.whole, self.unit_of, self.answers = source, whole, unit_of, answers
        self.ranks_members = source is not None and source.ranks_members
        if is_equal:
            return False
        memset(self.priorities.data, 0, self.priorities.capacity * sizeof(int64_t))
        symbols = {self.classes.symbols.intern("/".join(key)): unit for key, unit in unit_of.items()}
        numbers = {key: at for at, key in enumerate(whole)}
        for table in (self.touched, self.stale, self.on_row, self.unsettled):
            table.clear()
        self.keys, self.members = list(whole), [Buffer(Journal(), sizeof(mr_member), 1) for _ in whole]
        self.units.reserve(len(self.keys))
        self.seen.reserve(len(self.keys))
        for at, (members, priority) in enumerate(zip(self.members, whole.values(), strict=True)):
            self.all()[at] = mr_unit(<mr_member*>members.data, MR_NOT_STARTED, 0, priority)
        memset(self.of_symbol.data, 0, self.of_symbol.capacity * sizeof(int32_t))
        self.of_symbol.reserve(max(symbols, default=0) + 1)
        for symbol, key in symbols.items():
            self.of_symbol.int32()[<Py_ssize_t>symbol] = <int32_t>numbers[key] + 1
        self.note_all()
        return True

    cdef int32_t priority_of(self, int32_t number, int32_t own) except? -1:
        """The priority with which a pod of a group is evicted by itself; `own` is that of the pod."""
        cdef Py_ssize_t symbol = self.ledger.record(number).group
        cdef int64_t* known
        self.priorities.reserve(symbol + 1)
        known = self.priorities.int64() + symbol
        if not known[0]:
            priority = self.source.priority_of(group_of(self.ledger.model_of(number)))
            known[0] = OWN if priority is None else BIAS + <int64_t>priority
        return own if known[0] == OWN else <int32_t>(known[0] - BIAS)

    cdef int note(self, int32_t row) except -1:
        """Note that a row has changed."""
        if self.keys:
            self.touched[row] = None
        return 0

    cdef int note_all(self) except -1:
        """Note that all rows may have changed."""
        cdef int32_t row
        self.epoch += 1
        self.changed.clear()
        for row in range(self.table.used):
            self.note(row)
        return 0

    cdef list refresh(self):
        """Read the members of changed units again; return the rows whose entries may have changed."""
        cdef int32_t unit, row, at
        if not self.touched:
            return []
        for row in self.touched:
            _read_units(self, row)
        for unit in self.stale:
            for at in range(self.all()[unit].count):
                self.note((<mr_member*>(<Buffer>self.members[unit]).data)[at].row)
            self.all()[unit].start, self.all()[unit].count = MR_NOT_STARTED, 0
        for row in self.touched:
            _gather(self, row)
        for unit in self.stale:
            self.all()[unit].members = <mr_member*>(<Buffer>self.members[unit]).data
        self.unsettled |= self.stale
        rows, self.touched, self.stale = list(self.touched), {}, {}
        if len(self.changed) + len(rows) > CHANGED_LIMIT:
            self.changed.clear()
            self.epoch += 1
        self.changed += rows
        return rows

    cdef int settle(self, int32_t unit) except -1:
        """Put the members of a unit into the order of importance, and equal ones into that of the source.
        Those that the source does not have come last."""
        cdef int32_t each, row, pod_class, number
        cdef int64_t start
        cdef mr_member* members
        cdef list found = []
        if unit not in self.unsettled:
            return 0
        members = <mr_member*>(<Buffer>self.members[unit]).data
        places = {self.ledger.find(uid): at for at, uid in enumerate(self.source.uids(self.keys[unit]))}
        for each in range(self.all()[unit].count):
            row, pod_class, number = members[each].row, members[each].pod_class, members[each].number
            place = -self.classes.priority_of(pod_class), members[each].start, places.get(number, len(places))
            found.append((*place, each, row, pod_class, number))
        for each, (_, start, _, _, row, pod_class, number) in enumerate(sorted(found)):
            members[each] = mr_member(start, row, pod_class, number)
        del self.unsettled[unit]
        return 0

    cdef int settle_all(self) except -1:
        """Call `settle` for all units."""
        cdef int32_t unit
        for unit in list(self.unsettled):
            self.settle(unit)
        return 0


cdef int _read_units(UnitIndex units, int32_t row) except -1:
    """Read which units a row has pods of, and mark these and those that it had pods of before."""
    cdef int32_t n = units.ledger.pods_on(row), number = units.ledger.row(row).first if n else 0, unit
    cdef set here = set()
    for _ in range(n):
        unit = _unit_of(units, number)
        if unit >= 0:
            here.add(unit)
        number = units.ledger.record(number).after
    for unit in here.union(units.on_row.get(row, (0, ()))[1]):
        units.stale[unit] = None
        units.all()[unit].members = NULL
    units.on_row[row] = n, here
    return 0


cdef int _gather(UnitIndex units, int32_t row) except -1:
    """Add the pods of a row to the members of marked units."""
    cdef int32_t n = units.ledger.pods_on(row), number = units.ledger.row(row).first if n else 0, each
    cdef mr_unit* unit
    cdef Buffer members
    for _ in range(n):
        each = _unit_of(units, number)
        if each >= 0 and units.all()[each].members == NULL:
            unit, members = units.all() + each, units.members[each]
            if unit.count == members.capacity:
                members.reserve(unit.count + 1)
            (<mr_member*>members.data)[unit.count] = mr_member(
                start_of(units.ledger, number), row, units.ledger.class_of(number), number,
            )
            unit.start = min(unit.start, (<mr_member*>members.data)[unit.count].start)
            unit.count += 1
        number = units.ledger.record(number).after
    return 0


cdef int32_t _unit_of(UnitIndex units, int32_t number) noexcept:
    """The unit of a pod, or -1."""
    cdef int32_t group = units.ledger.record(number).group
    if not group or group >= units.of_symbol.capacity:
        return -1
    return units.of_symbol.int32()[group] - 1


cdef class Importance:
    """The sorted pods of every row.

    They are derived from the ledger: a fork starts without them, and transactions do not undo them.

    Parameters
    ----------
    table : NodeTable
    classes : PodClasses
    ledger : Ledger
    """

    def __cinit__(self, NodeTable table not None, PodClasses classes not None, Ledger ledger not None):
        cdef Journal journal = Journal()
        self.table, self.classes, self.ledger = table, classes, ledger
        self.log = table.log
        self.units = UnitIndex(table, classes, ledger)
        self.entries = Buffer(journal, sizeof(mr_pod_entry))
        self.spans = Buffer(journal, sizeof(mr_pod_span))
        self.scratch = Buffer(journal, sizeof(mr_pod_entry))
        self.usages = Buffer(journal, sizeof(mr_class_usage))
        self.cursor = self.log.head
        self.adds_up = True
        self.ties_by_uid = classes.gates.victims_tie_by_uid

    cdef int follow(self) except -1:
        """Mark changed rows to be read again, and read new classes."""
        cdef int64_t at, last = self.log.capacity - 1
        cdef int32_t row, before = -1
        cdef mr_pod_span* spans
        if self.known < len(self.classes.keys):
            _read_classes(self)
        self.spans.reserve(self.table.used)
        spans = self.spans_of()
        if self.log.lost(self.cursor):
            _forget(self)
            self.units.note_all()
        else:
            for at in range(self.cursor, self.log.head):
                row = self.log.id[at & last]
                if self.log.kind[at & last] <= LOG_ORDER and row < self.spans.capacity and row != before:
                    spans[row].read, before = 0, row
                    self.units.note(row)
        self.cursor = self.log.head
        return self._refresh_units()

    cdef int use(self, object source, int32_t priority) except -1:
        """Take the groups that are evicted as a whole from a source (see `UnitIndex.use`), and the priority
        of the preemptor."""
        self.priority = priority
        if self.units.use(source):
            _forget(self)
        return 0

    cdef int read_classes_anew(self) except -1:
        """Read all classes and rows again, as classes have been numbered anew."""
        self.known = 0
        _read_classes(self)
        _forget(self)
        self.units.note_all()
        return 0

    cdef int _refresh_units(self) except -1:
        """Read changed units again, and mark the rows that have pods of them."""
        cdef int32_t row
        for row in self.units.refresh():
            self.spans_of()[row].read = 0
            self.moves += 1
        return 0

    cdef mr_pod_entry* pods_of(self, int32_t row, int32_t* n) except NULL:
        """The pods and units of a row and their number. Valid until another row is read."""
        cdef mr_pod_span* span = self.spans_of() + row
        if not self.is_read(row):
            self._read(row)
        n[0] = span.count
        return <mr_pod_entry*>self.entries.data + span.first

    cdef int32_t read_all(self, const int32_t* order, uint64_t bits) except -1:
        """Read the rows at some positions of an order; return the largest number of entries on one."""
        cdef uint64_t left = bits
        cdef int32_t row, most = 0, moves = self.moves
        cdef mr_pod_span* spans = self.spans_of()
        while left:
            row = order[ctz(left)]
            left &= left - 1
            if not self.is_read(row):
                self._read(row)
            most = max(most, spans[row].count)
            if moves != self.moves:  # rows that were read before have been dropped
                left, moves = bits, self.moves
        return most

    cdef int _read(self, int32_t row) except -1:
        """Read and sort the pods and units of a row."""
        cdef mr_pod_span* span = self.spans_of() + row
        cdef int32_t n = self.ledger.pods_on(row)
        cdef mr_pod_entry* entries
        if self.units.keys and self.units.on_row.get(row, (0,))[0] != n:
            self.units.note(row)
            self._refresh_units()
        _make_room(self, row, n)
        self.scratch.reserve(n)
        entries = <mr_pod_entry*>self.entries.data + span.first
        span.count = self.enter(entries, row)
        span.cut = mr_sort_for(self.priority, entries, span.count, <mr_pod_entry*>self.scratch.data)
        if self.ties_by_uid:
            self.order_ties(entries, span.count)
            span.cut = MR_ANY_CUT
        span.read = n + 1
        return 0

    cdef int order_ties(self, mr_pod_entry* entries, int32_t n) except -1:
        """Order equal entries of some that are sorted by the UIDs of their first pods (kube-scheduler v1.38,
        framework/preemption/util.go podIdentityLess)."""
        cdef int32_t first = 0, end, at
        cdef mr_pod_entry* copy
        while first < n:
            end = first + 1
            while end < n and _are_equal(&entries[first], &entries[end]):
                end += 1
            if end > first + 1:
                uids = [
                    self.ledger.object_of(self.pods_in(&entries[at])[0]).metadata.uid
                    for at in range(first, end)
                ]
                self.scratch.reserve(end - first)
                copy = <mr_pod_entry*>self.scratch.data
                memcpy(copy, entries + first, (end - first) * sizeof(mr_pod_entry))
                for at, source in enumerate(sorted(range(end - first), key=uids.__getitem__)):
                    entries[first + at] = copy[<Py_ssize_t>source]
            first = end
        return 0

    cdef int32_t enter(self, mr_pod_entry* entries, int32_t row) except -1:
        """Write the pods and units of a row, each unit at its first pod; return their number."""
        cdef mr_unit* units = self.units.all()
        cdef int32_t n = self.ledger.pods_on(row), count = 0, number = 0, unit, priority
        cdef bint ranks_members = self.units.ranks_members
        cdef PodRecord* record
        self.units.stamp += 1
        if n:
            number = self.ledger.row(row).first
        for _ in range(n):
            record = self.ledger.record(number)
            unit = _unit_of(self.units, number)
            if unit < 0:
                entries[count].number, entries[count].pod_class = number, record.pod_class
                entries[count].start = start_of(self.ledger, number)
                priority = self.usages_of()[record.pod_class].priority
                entries[count].members = 1 if ranks_members and record.group else 0
                if entries[count].members:
                    priority = self.units.priority_of(number, priority)
                entries[count].priority = priority
                count += 1
            elif self.units.seen.int64()[unit] != self.units.stamp:
                self.units.seen.int64()[unit] = self.units.stamp
                entries[count].number, entries[count].pod_class = number, ~unit
                entries[count].start = units[unit].start
                entries[count].priority, entries[count].members = units[unit].priority, units[unit].count
                count += 1
            number = record.after
        return count

    cdef list pods_in(self, const mr_pod_entry* entry):
        """The numbers of the pods of an entry: of one pod, or of a unit."""
        cdef const mr_unit* unit
        cdef int32_t at
        if entry.pod_class >= 0:
            return [entry.number]
        self.units.settle(mr_unit_of(entry))
        unit = self.units.all() + mr_unit_of(entry)
        return [unit.members[at].number for at in range(unit.count)]


cdef bint _are_equal(const mr_pod_entry* a, const mr_pod_entry* b) noexcept:
    """Whether two entries are equal but for their UIDs."""
    return a.priority == b.priority and a.members == b.members and a.start == b.start


cdef int _forget(Importance importance) except -1:
    """Mark all rows as changed, and compact their memory."""
    cdef Py_ssize_t row
    for row in range(importance.spans.capacity):
        importance.spans_of()[row].room = importance.spans_of()[row].read = 0
    importance.used = importance.lost = 0
    importance.moves += 1
    return 0


cdef int _read_classes(Importance importance) except -1:
    """Read the requests and priorities of new classes."""
    cdef Shape shape
    cdef mr_class_usage* usage
    cdef int32_t pod_class
    importance.usages.reserve(len(importance.classes.keys))
    for pod_class in range(importance.known, <int32_t>len(importance.classes.keys)):
        shape = importance.classes.shape(pod_class)
        usage = <mr_class_usage*>importance.usages.data + pod_class
        usage.cpu, usage.memory, usage.priority = shape.c.cpu, shape.c.memory, shape.c.priority
        usage.shape = &shape.c
        importance.adds_up &= 0 <= usage.cpu <= SUMMAND and 0 <= usage.memory <= SUMMAND
        importance.known = pod_class + 1
    return 0


cdef int _make_room(Importance importance, int32_t row, int32_t pods) except -1:
    """Make room for a number of pods in the span of a row."""
    cdef mr_pod_span* span = importance.spans_of() + row
    cdef int32_t room = pods + pods // 4 + 1
    if pods <= span.room:
        return 0
    if importance.used + room > importance.entries.capacity and 2 * importance.lost > importance.used:
        _forget(importance)
    importance.entries.reserve(importance.used + room)
    importance.lost += span.room
    span.first, span.room = <int32_t>importance.used, room
    importance.used += room
    return 0


cdef int64_t start_of(Ledger ledger, int32_t number) except? -1:
    """When a pod was started, in microseconds since 1970; the pod's record caches it."""
    cdef PodRecord* record = ledger.record(number)
    if record.start == INT64_MIN:
        ledger.pods.touch(number)  # a rollback restores records to the byte
        record.start = start_time(ledger.model_of(number))
    return record.start
