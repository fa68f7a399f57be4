"""LowerUnits: the units of lower priority in the cluster, which a group may evict.

kube-scheduler v1.37, framework/preemption/podgrouppreemption.go and util.go MoreImportantVictim.
"""

import numpy as np

from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

from moorage._core.base cimport LOG_ROW, METADATA, UID, group_of
from moorage._core.csrc cimport mr_verdicts
from moorage._core.decide.search cimport Search
from moorage._core.preempt.bound_pods cimport pods_with_numbers
from moorage._core.preempt.budgets cimport Budgets
from moorage._core.preempt.importance cimport start_of
from moorage._core.preempt.importance import order_as_upstream, start_time
from moorage._core.state cimport ClusterState, Ledger, PodRecord, Shape
from moorage._core.state.pod_spec import bound

cdef object UNASKED = object()

cdef enum:
    UNREAD = 0
    AS_EACH = 1  # each pod of a group by itself, with its own priority
    WITH_PRIORITY = 2  # each by itself, with the priority of the group
    TOGETHER = 3


def has_pods_below(ClusterState state not None, int32_t priority):
    """Whether a pod of lower priority is on any node.

    Parameters
    ----------
    state : ClusterState
    priority : int

    Returns
    -------
    bool
        Terminating pods count.
    """
    cdef int32_t each, classes = <int32_t>len(state.classes.keys)
    cdef unsigned char[::1] lower
    if state.classes.lowest_priority >= priority:
        return False
    lower = bytearray(classes + 1)
    for each in range(classes):
        lower[each] = state.classes.priority_of(each) < priority
    return state.ledger.has_any(lower)


cdef class _Evictions:
    """How the pods of each group are evicted, by the symbol of the group.

    Attributes
    ----------
    kinds : memoryview of unsigned char
        With whom; `UNREAD` where `_read` has to be called.
    priorities : memoryview of int
        With which priority, unless each pod has its own.
    wholes : dict of int to UnitKey
        The group whose pods are only evicted together.
    """

    cdef Ledger ledger
    cdef object groups
    cdef unsigned char[::1] kinds
    cdef int32_t[::1] priorities
    cdef dict wholes, known
    cdef bint has_wholes

    def __init__(self, Ledger ledger not None, groups not None):
        cdef Py_ssize_t symbols = len(ledger.symbols.names)
        self.ledger, self.groups, self.wholes = ledger, groups, {}
        self.known, self.has_wholes = groups.priorities, bool(groups.evicted_with)
        self.kinds, self.priorities = bytearray(symbols), np.empty(symbols, dtype=np.int32)


cdef int _read(_Evictions evictions, int32_t number) except -1:
    """Note how the pods of the group of a pod are evicted; return with whom."""
    cdef int32_t symbol = evictions.ledger.record(number).group
    cdef int kind = AS_EACH
    key, whole = group_of(evictions.ledger.model_of(number)), None
    priority = UNASKED if evictions.has_wholes else evictions.known.get(key, UNASKED)
    if priority is UNASKED:
        priority, whole = evictions.groups.unit_of(key)
    if priority is not None:
        evictions.priorities[symbol] = priority
        kind = WITH_PRIORITY
    if whole is not None:
        evictions.wholes[symbol] = whole
        kind = TOGETHER
    evictions.kinds[symbol] = kind
    return kind


cdef class LowerUnits:
    """The units of lower priority than a group: pods, and groups whose pods are only evicted together.

    The most important unit comes first: that of higher priority; of these groups and pods of groups before
    other pods; then the unit with more pods, and the one whose oldest pod has run longest. Of up to 12 units,
    equal ones are in the order of the nodes, and of the pods on each, and of more in that of upstream's sort
    (`order_as_upstream`). Valid until the cache changes.

    Parameters
    ----------
    state : ClusterState
    priority : int
        Of the group that may evict them.
    groups : UnitsOfGroups
        Knows the priorities of groups, and those that are evicted as a whole.

    Attributes
    ----------
    wholes : dict of int to tuple of Pod
        The pods of the units that are evicted as a whole, by index of the unit.
    """

    cdef ClusterState state
    cdef readonly dict wholes
    cdef readonly int32_t size
    cdef int32_t used  # of `numbers`
    # by unit, in the order of importance: its pods in `numbers`
    cdef int32_t[::1] first, end, numbers
    cdef object ranks  # by unit; equal units have equal ranks

    def __init__(self, ClusterState state not None, int32_t priority, groups not None):
        cdef Ledger ledger = state.ledger
        cdef int32_t row, number, symbol, rank, n = 0, used = 0
        cdef int32_t alive = <int32_t>len(ledger)
        cdef const int32_t[::1] rows
        cdef PodRecord* record
        cdef int kind
        cdef dict pods_of = {}  # by the key of a whole: (unit, numbers)
        cdef _Evictions of_group = _Evictions(ledger, groups)
        self.state = state
        state.view.refresh()
        rows = state.view.rows()
        first, size = np.empty(alive, dtype=np.int32), np.empty(alive, dtype=np.int32)
        ranks, starts = np.empty(alive, dtype=np.int64), np.empty(alive, dtype=np.int64)
        alone = np.empty(alive, dtype=np.int8)
        self.numbers = np.empty(2 * alive, dtype=np.int32)  # an informer may know a pod in another group
        cdef int32_t[::1] first_of = first, size_of = size
        cdef int64_t[::1] rank_of = ranks, start = starts
        cdef int8_t[::1] is_alone = alone
        for row in rows:
            if not ledger.pods_on(row):
                continue
            number = ledger.row(row).first
            for _ in range(ledger.pods_on(row)):
                record = ledger.record(number)
                symbol = record.group
                rank, whole = state.classes.priority_of(record.pod_class), None
                if symbol:
                    kind = of_group.kinds[symbol] or _read(of_group, number)
                    if kind != AS_EACH:
                        rank = of_group.priorities[symbol]
                    if kind == TOGETHER:
                        whole = of_group.wholes[symbol]
                if rank >= priority:
                    pass
                elif whole is not None and whole in pods_of:
                    pods_of[whole][1].append(number)
                else:
                    rank_of[n], is_alone[n], size_of[n] = rank, not symbol, 1
                    if whole is None:
                        self.numbers[used], first_of[n], start[n] = number, used, start_of(ledger, number)
                        used += 1
                    else:
                        pods_of[whole] = n, [number]
                    n += 1
                number = ledger.record(number).after
        self._sort(pods_of, groups, n, used, (first, size, ranks, starts, alone))

    cdef _sort(self, dict pods_of, groups, int32_t n, int32_t used, tuple columns):
        """Give the units that are evicted as a whole their pods, and put all units into their order."""
        cdef int32_t each
        first, size, ranks, starts, alone = columns
        cdef int32_t[::1] first_of = first, size_of = size
        cdef int64_t[::1] start = starts
        cdef dict wholes = {}
        for key, (each, here) in pods_of.items():
            wholes[each] = pods = groups.whole(key, [self._pod(number) for number in here])
            first_of[each], size_of[each], start[each] = used, <int32_t>len(pods), min(map(start_time, pods))
            for pod in pods:
                self.numbers[used] = self.state.ledger.find(UID.of(METADATA.of(pod)))
                used += 1
        self.size, self.used, self.wholes = n, used, wholes
        keys, order = np.stack((-ranks[:n], alone[:n], -size[:n], starts[:n])), np.arange(n)
        is_sorted = _are_in_order(n, size_of, ranks, start, alone)
        if not is_sorted:
            order = np.lexsort(keys[::-1])
        of_unit = np.zeros(n, dtype=np.int64)
        of_unit[order[1:]] = np.cumsum((np.diff(keys[:, order]) != 0).any(axis=0))
        if not is_sorted:
            order = order_as_upstream(of_unit)
            first, size, of_unit = first[order], size[order], of_unit[order]
            self.wholes = {at: wholes[unit] for at, unit in enumerate(order.tolist()) if unit in wholes}
        self.first, self.end, self.ranks = first, first + size, of_unit

    def __len__(self):
        return self.size

    def pods(self, int32_t at):
        """Return the pods of a unit.

        Parameters
        ----------
        at : int
            Index of the unit.

        Returns
        -------
        tuple of Pod
            The most important first, each with its node name.

        Raises
        ------
        IndexError
            There is no such unit.
        """
        if not 0 <= at < self.size:
            raise IndexError(f"there is no unit {at} among {self.size}")
        return self.wholes.get(at) or (self._pod(self.numbers[self.first[at]]),)

    def most_important_first(self, list units not None):
        """Return some units in upstream's order.

        Parameters
        ----------
        units : list of int
            Their indexes, those whose eviction violates a budget before the others.

        Returns
        -------
        list of int
        """
        at = np.array(units, dtype=np.intp)
        return at[order_as_upstream(self.ranks[at])].tolist()

    def pods_of(self, units):
        """Return the pods of some units.

        Parameters
        ----------
        units : iterable of int
            Their indexes.

        Returns
        -------
        BoundPods
            By unit; the most important pods of each first.

        Raises
        ------
        IndexError
            There is no such unit.
        """
        cdef int32_t at, each
        cdef list numbers = []
        for at in units:
            if not 0 <= at < self.size:
                raise IndexError(f"there is no unit {at} among {self.size}")
            for each in range(self.first[at], self.end[at]):
                numbers.append(self.numbers[each])
        return pods_with_numbers(self.state, numbers)

    def on_rows(self, rows not None):
        """Return the units with a pod on some rows.

        Parameters
        ----------
        rows : collection of int

        Returns
        -------
        list of int
            Their indexes, in order.
        """
        cdef int32_t at, each
        cdef list found = []
        for at in range(self.size):
            for each in range(self.first[at], self.end[at]):
                if self.state.ledger.row_of(self.numbers[each]) in rows:
                    found.append(at)
                    break
        return found

    def remove(self, bint usage_alone=False):
        """Remove all pods of the units from the cache, in a transaction of the caller.

        Parameters
        ----------
        usage_alone : bool, optional
            Whether their usage leaves the rows, and the pods stay in the ledger and in counters of domains;
            for decisions that read rows alone (`Placer.reads_rows_alone`), which are wrong otherwise. Without
            it, preemption for ten groups takes 1.2 times as long (CPGPreemption of scheduler_perf, 100
            nodes).
        """
        cdef int32_t at, each, row, before = -1
        for at in range(self.size):
            if usage_alone:
                _move(self, at, -1)
            for each in range(self.first[at], self.end[at]):
                if not usage_alone:
                    self.state._take_away(self.numbers[each])
                    continue
                row = self.state.ledger.row_of(self.numbers[each])
                if row != before:
                    self.state.table.changed(LOG_ROW, row)
                    before = row

    def to_leave(self, list order not None, list found not None):
        """Return the units with which pods do not fit on the nodes that were found for them.

        All units leave, and each returns with which all of these pods still fit. The filters read the row
        alone, so that the usage of rows is all that changes here, in a transaction of the caller that is
        undone. Without it, preemption for one group takes 1.5 times as long (CPGPreemption of scheduler_perf,
        100 nodes).

        Parameters
        ----------
        order : list of int
            Indexes of the units, in the order in which they return.
        found : list of (Search, int, (int, int, int), int)
            The search of each pod, its filters and target (see `Search.verdict_after`), and its row. A row
            takes its pods in this order.

        Returns
        -------
        list of int
            Indexes of the units that do not return, in order.

        Raises
        ------
        IndexError
            There is no such unit, or a row is not in the node table.
        """
        cdef int32_t at, each
        cdef list leaving = []
        cdef dict by_row = {}
        cdef _Check check = _Check(self.state, found)
        for one in found:
            self.state.table.check_row(one[3])
            by_row.setdefault(one[3], []).append(one)
        for at in order:
            if not 0 <= at < self.size:
                raise IndexError(f"there is no unit {at} among {self.size}")
            _move(self, at, -1)
        for at in order:
            _move(self, at, 1)
            for each in range(self.first[at], self.end[at]):
                pods = by_row.get(self.state.ledger.row_of(self.numbers[each]))
                if pods is not None and not _fit(check, pods):
                    _move(self, at, -1)
                    leaving.append(at)
                    break
        return leaving

    def _pod(self, int32_t number):
        """The pod with a number, with its node name."""
        cdef Ledger ledger = self.state.ledger
        return bound(ledger.object_of(number), self.state.table.row_name(ledger.row_of(number)))

    def budgeted(self, tuple budgets not None):
        """Return the units with a pod that a PodDisruptionBudget selects.

        Parameters
        ----------
        budgets : tuple of PodDisruptionBudget

        Returns
        -------
        list of int
            Their indexes, in order.
        """
        cdef Budgets of_classes = Budgets(self.state.classes)
        cdef const int32_t* set_of
        cdef int32_t at, each
        cdef list found = []
        of_classes.set(budgets)
        of_classes.follow()
        set_of = of_classes.c.of_class
        for at in range(self.size):
            for each in range(self.first[at], self.end[at]):
                if set_of[self.state.ledger.class_of(self.numbers[each])]:
                    found.append(at)
                    break
        return found


cdef int _move(LowerUnits units, int32_t at, int32_t sign) except -1:
    """Add the usage of a unit to its rows (sign 1), or subtract it (sign -1)."""
    cdef int32_t each, number
    for each in range(units.first[at], units.end[at]):
        number = units.numbers[each]
        _count(units.state, units.state.ledger.class_of(number), units.state.ledger.row_of(number), sign)


cdef int _count(ClusterState state, int32_t pod_class, int32_t row, int32_t sign) except -1:
    """Add the usage of a pod to a row (sign 1), or subtract it (sign -1)."""
    cdef Shape shape = state.classes.shape(pod_class)
    return state.table.add_pod(shape.ledger, row, &shape.c, shape.ports, sign)


cdef class _Check:
    """Checks pods on the rows that were found for them.

    Attributes
    ----------
    stays : bool
        Whether one search, once prepared, serves all checks: the pods are alike, and use no host ports. (The
        memory of sets of ports may move while units return.)
    moves : int
        `Journal.moves` when it was prepared; -1 before.
    """

    cdef ClusterState state
    cdef bint stays
    cdef int64_t moves

    def __init__(self, ClusterState state not None, list found not None):
        self.state, self.moves = state, -1
        self.stays = len({(search, target) for search, _, target, _ in found}) == 1 \
            and not state.classes.shape(found[0][2][0]).c.n_ports


cdef bint _fit(_Check check, list found) except -1:
    """Whether pods pass their filters on one row, each with those before it."""
    cdef ClusterState state = check.state
    cdef Search search
    cdef uint64_t filters, verdict = 0
    cdef int32_t pod_class, node_name, pinned, row, at, counted = 0
    try:
        for search, filters, (pod_class, node_name, pinned), row in found:
            if not check.stays or check.moves != state.journal.moves:
                search._prepare(pod_class, node_name, pinned)
                check.moves = state.journal.moves
            if mr_verdicts(&search.search, filters, &row, 1, &verdict):
                search._raise_failure()
            if verdict:
                return False
            if counted + 1 < len(found):
                _count(state, pod_class, row, 1)
                counted += 1
    finally:
        for at in range(counted):
            _count(state, found[at][2][0], found[at][3], -1)
    return True


cdef bint _are_in_order(int32_t n, const int32_t[::1] size, const int64_t[::1] rank,
                        const int64_t[::1] start, const int8_t[::1] alone) noexcept:
    """Whether the most important unit comes first already."""
    cdef int32_t at
    for at in range(1, n):
        if rank[at] != rank[at - 1]:
            if rank[at] > rank[at - 1]:
                return False
        elif alone[at] != alone[at - 1]:
            if alone[at] < alone[at - 1]:
                return False
        elif size[at] != size[at - 1]:
            if size[at] > size[at - 1]:
                return False
        elif start[at] < start[at - 1]:
            return False
    return True
