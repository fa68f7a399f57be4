# cython: auto_pickle=False
"""LowerUnits: the units of lower priority in the cluster, which a group may evict.

kube-scheduler v1.37, framework/preemption/podgrouppreemption.go and util.go MoreImportantVictim.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.base cimport LOG_ROW, Buffer, Journal
from moorage._core.csrc cimport mr_pod_entry, mr_sort_as_upstream, mr_unit_of, mr_verdicts
from moorage._core.decide.search cimport Search
from moorage._core.preempt.bound_pods cimport pods_with_numbers
from moorage._core.preempt.budgets cimport Budgets
from moorage._core.preempt.importance cimport Importance
from moorage._core.state cimport ClusterState, Ledger, Shape
from moorage._core.state.pod_spec import bound


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


cdef class LowerUnits:
    """The units of lower priority than a group: pods, and groups whose pods are only evicted together.

    The most important unit comes first (see `Importance`). Of up to 12 units, equal ones are in the order of
    the nodes, and of the pods on each, and of more in that of upstream's sort; since v1.38, in that of their
    UIDs. Valid until the cache changes.

    Parameters
    ----------
    state : ClusterState
    priority : int
        Of the group that may evict them.
    groups : EvictedGroups or None
        Knows the priorities of groups, and those that are evicted as a whole; None: each pod is one by
        itself.
    """

    cdef ClusterState state
    cdef int32_t size
    cdef Buffer units  # mr_pod_entry, in the order of importance
    cdef bint ties_by_uid  # whether no units are equal
    cdef list wholes  # the keys of groups that are evicted as a whole, in the order of `Importance`
    cdef int32_t[::1] first, numbers  # by unit, and after the last one: where its pods begin in `numbers`

    def __cinit__(self, ClusterState state not None, int32_t priority, groups):
        cdef Importance importance = Importance(state.table, state.classes, state.ledger)
        cdef int32_t row, at, n, number, used = 0, alive = <int32_t>len(state.ledger)
        cdef mr_pod_entry* units
        cdef set seen = set()
        self.state, self.units = state, Buffer(Journal(), sizeof(mr_pod_entry), alive + 1)
        units = <mr_pod_entry*>self.units.data
        importance.use(groups, priority)
        importance.follow()
        self.wholes = importance.units.keys
        state.view.refresh()
        for row in state.view.rows():
            n = importance.enter(units + self.size, row)
            for at in range(self.size, self.size + n):
                if units[at].priority >= priority:
                    continue
                if units[at].pod_class < 0:
                    if units[at].pod_class in seen:
                        continue
                    seen.add(units[at].pod_class)
                units[self.size] = units[at]
                self.size += 1
        mr_sort_as_upstream(units, self.size)
        if importance.ties_by_uid:
            importance.order_ties(units, self.size)
        self.ties_by_uid = importance.ties_by_uid
        self.first, self.numbers = np.zeros(self.size + 1, dtype=np.int32), np.empty(alive, dtype=np.int32)
        for at in range(self.size):
            for number in importance.pods_in(&units[at]):
                self.numbers[used] = number
                used += 1
            self.first[at + 1] = used

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
        _check_index(self, at)
        return tuple([_pod(self, self.numbers[each]) for each in range(self.first[at], self.first[at + 1])])

    def described(self):
        """Return what is known of each unit.

        Returns
        -------
        list of (int, UnitKey or None, list of int)
            Its priority, the key of a group that is evicted as a whole, and the row of each of its pods.
        """
        cdef mr_pod_entry* units = <mr_pod_entry*>self.units.data
        cdef int32_t at, each
        return [(
            units[at].priority,
            self.wholes[mr_unit_of(&units[at])] if units[at].pod_class < 0 else None,
            [
                self.state.ledger.row_of(self.numbers[each])
                for each in range(self.first[at], self.first[at + 1])
            ],
        ) for at in range(self.size)]

    def lost_node(self):
        """Return the name of a node that is gone while a pod of a unit names it; "" for none."""
        cdef int32_t at, row
        for at in range(self.first[self.size]):
            row = self.state.ledger.row_of(self.numbers[at])
            if not self.state.table.is_present(row):
                return self.state.table.row_name(row)
        return ""

    def most_important_first(self, list units not None):
        """Return some units in upstream's order.

        Parameters
        ----------
        units : list of int
            Their indexes, those whose eviction violates a budget before the others.

        Returns
        -------
        list of int

        Raises
        ------
        IndexError
            There is no such unit.
        """
        cdef Buffer chosen = Buffer(Journal(), sizeof(mr_pod_entry), len(units) + 1)
        cdef mr_pod_entry* each = <mr_pod_entry*>chosen.data
        cdef int32_t place, unit, n = <int32_t>len(units)
        if self.ties_by_uid:
            return sorted(units)
        for place, unit in enumerate(units):
            _check_index(self, unit)
            each[place] = (<mr_pod_entry*>self.units.data)[unit]
            each[place].number = unit
        mr_sort_as_upstream(each, n)
        return [each[place].number for place in range(n)]

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
            _check_index(self, at)
            for each in range(self.first[at], self.first[at + 1]):
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
            for each in range(self.first[at], self.first[at + 1]):
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
        cdef int32_t at, each
        for at in range(self.size):
            if usage_alone:
                _move(self, at, -1)
                continue
            for each in range(self.first[at], self.first[at + 1]):
                self.state._take_away(self.numbers[each])

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
            _check_index(self, at)
            _move(self, at, -1)
        for at in order:
            _move(self, at, 1)
            for each in range(self.first[at], self.first[at + 1]):
                pods = by_row.get(self.state.ledger.row_of(self.numbers[each]))
                if pods is not None and not _fit(check, pods):
                    _move(self, at, -1)
                    leaving.append(at)
                    break
        return leaving

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
            for each in range(self.first[at], self.first[at + 1]):
                if set_of[self.state.ledger.class_of(self.numbers[each])]:
                    found.append(at)
                    break
        return found


cdef int _check_index(LowerUnits units, int32_t at) except -1:
    """Check that there is a unit with an index."""
    if not 0 <= at < units.size:
        raise IndexError(f"there is no unit {at} among {units.size}")
    return 0


cdef object _pod(LowerUnits units, int32_t number):
    """The pod with a number, with its node name."""
    cdef Ledger ledger = units.state.ledger
    return bound(ledger.object_of(number), units.state.table.row_name(ledger.row_of(number)))


cdef int _move(LowerUnits units, int32_t at, int32_t sign) except -1:
    """Add the usage of a unit to its rows (sign 1), or subtract it (sign -1)."""
    cdef int32_t each, number
    for each in range(units.first[at], units.first[at + 1]):
        number = units.numbers[each]
        _count(units.state, units.state.ledger.class_of(number), units.state.ledger.row_of(number), sign)


cdef int _count(ClusterState state, int32_t pod_class, int32_t row, int32_t sign) except -1:
    """Add the usage of a pod to a row (sign 1), or subtract it (sign -1)."""
    cdef Shape shape = state.classes.shape(pod_class)
    state.table.add_pod(shape.ledger, row, &shape.c, shape.ports, sign)
    return state.table.changed(LOG_ROW, row)


cdef class _Check:
    """Checks pods on the rows that were found for them."""

    cdef ClusterState state
    # Whether one search, once prepared, serves all checks: the pods are alike, and use no host ports. (The
    # memory of sets of ports may move while units return.)
    cdef bint stays
    cdef int64_t moves  # `Journal.moves` when it was prepared; -1 before

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
