"""DryRuns: which pods must be evicted from a node so that another pod fits. Nothing is changed.

kube-scheduler v1.36, SelectVictimsOnNode: all pods of lower priority are removed from the node, and the
preemptor must pass all filters, with the nominated pods of at least its priority and without them. Then the
pods are added back one by one as long as the preemptor passes: first those whose eviction violates a budget,
each kind in the order of importance. Those that cannot be added back are the victims. Pods of a group that is
evicted as a whole are removed and added back together, also those on other nodes. Pods of other groups have
the priority of their group.
"""

import numpy as np

from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

from moorage._core.preempt.bound_pods cimport pods_with_numbers
from moorage._core.preempt.budgets cimport Budgets
from moorage._core.base cimport Buffer, Journal
from moorage._core.csrc cimport *
from moorage._core.preempt.importance cimport Importance
from moorage._core.decide.decider cimport Decider
from moorage._core.state cimport ClusterState
from moorage._core.decide.terms cimport Terms

cdef enum:
    MATCHES_LIMIT = 1 << 10  # sets of terms whose matching classes are cached

# The verdict of a node without pods of lower priority. No filter returns it.
NO_VICTIMS = MR_NO_VICTIMS


cdef class DryRun:
    """The results of dry runs, row by row.

    Parameters
    ----------
    state : ClusterState
    rows, verdicts, violations : list of int
        The attributes of the same names.
    numbers : list of list of int
        The numbers of the victims of each row in the ledger.

    Attributes
    ----------
    rows : (n,) int32 array
        The rows that were tried, in order.
    verdicts : (n,) uint64 array
        0 where evictions help; else why not, packed as in `Search.verdicts`, or `NO_VICTIMS`.
    violations : (n,) int32 array
        The number of victims whose eviction violates a PodDisruptionBudget.
    """

    def __cinit__(self, ClusterState state not None, list rows not None, list verdicts not None,
                  list violations not None, list numbers not None):
        self.state = state
        self.rows = np.array(rows, dtype=np.int32)
        self.verdicts = np.array(verdicts, dtype=np.uint64)
        self.violations = np.array(violations, dtype=np.int32)
        self.numbers = numbers

    def victims(self, Py_ssize_t at):
        """Return the victims on a row that was tried. Valid until the cache changes.

        Parameters
        ----------
        at : int
            The index of the row in `rows`.

        Returns
        -------
        list of Pod
            The most important first, each with its node name.

        Raises
        ------
        IndexError
            There is no such row.
        """
        if not 0 <= at < len(self.numbers):
            raise IndexError(f"there is no row {at} among the {len(self.numbers)} that were tried")
        return list(pods_with_numbers(self.state, self.numbers[at]))


cdef class DryRuns:
    """Dry runs for the pods of one profile.

    Parameters
    ----------
    decider : Decider
        The decider of the profile. The nominated pods of its search count on their nodes.
    stops_at_violation : bool, optional
        Whether a pod counts against no budget after the first that its eviction violates.

    Attributes
    ----------
    state : ClusterState
    """

    def __cinit__(self, Decider decider not None, bint stops_at_violation=False):
        cdef Journal journal = Journal()
        cdef ClusterState state = decider.state
        memset(&self.c, 0, sizeof(mr_preemptor))
        self.search, self.state = decider.search, state
        self.importance = Importance(state.table, state.classes, state.ledger)
        self.budgets = Budgets(state.classes)
        self.budgets.c.stops = stops_at_violation
        self.matches = {}
        self.generation = state.classes.number
        self.removed = Buffer(journal, sizeof(int32_t))
        self.removed_with = Buffer(journal, sizeof(int32_t))
        self.victims = Buffer(journal, sizeof(uint64_t))
        self.evicted = Buffer(journal, sizeof(mr_pod_entry))
        self.violating = Buffer(journal, sizeof(uint64_t))
        self.costs = Buffer(journal, sizeof(int32_t))
        self.nominated = Buffer(journal, sizeof(int32_t))

    @property
    def suits(self):
        """Whether all filters are part of the core. Others would have to be called with the pods removed."""
        return not mr_has_external_filters(&self.search.plan.c)

    def dry_run(self, tuple target not None, rows, budgets=(), int32_t wanted=-1, groups=None):
        """Run dry runs on rows, one after the other.

        Parameters
        ----------
        target : (int, int, int)
            The class of the preemptor, and the symbols of `Search.verdicts`.
        rows : iterable of int
            Rows of nodes in the view.
        budgets : iterable of PodDisruptionBudget
            All budgets of the cluster.
        wanted : int
            Stop after this number of rows where evictions help, if one of them violates no budget; -1 tries
            all rows.
        groups : PodGroups, optional
            Knows the priorities of groups, and those whose pods are only evicted together.

        Returns
        -------
        DryRun
            The results of the rows that were tried.

        Raises
        ------
        IndexError
            A row is not in the node table.
        """
        cdef mr_eviction result
        cdef int32_t row, found = 0, pod_class, node_name, pinned
        cdef bint clean = False
        pod_class, node_name, pinned = target
        tried, verdicts, violations, numbers = [], [], [], []
        self.search.leaves_out_nominated = True
        try:
            self.search._prepare(pod_class, node_name, pinned)
        finally:
            self.search.leaves_out_nominated = False
        self._begin(pod_class, pinned, tuple(budgets), groups)
        for row in rows:
            self.state.table.check_row(row)
            self._run(row, &result)
            tried.append(row)
            verdicts.append(result.verdict)
            violations.append(0 if result.verdict else result.violations)
            numbers.append([] if result.verdict else self._victims(row, &result))
            if not result.verdict and result.victims:
                found += 1
                clean = clean or result.violations == 0
                if clean and 0 <= wanted <= found:
                    break
        return DryRun(self.state, tried, verdicts, violations, numbers)

    cdef int _begin(self, int32_t pod_class, int32_t pinned, tuple budgets, object groups) except -1:
        """Prepare dry runs for the pod that the search is prepared for."""
        self.c.n_nominated = 0
        if self.generation != self.state.classes.number:
            self._read_classes_anew()
        self.importance.use(groups, self.search.search.shape.priority)
        self._follow_rows(len(budgets) > 0)
        self.c.search = &self.search.search
        self.c.settled, self.c.explains = False, True
        self.c.adds_up, self.c.has_groups = self.importance.adds_up, groups is not None
        self.budgets.set(budgets)
        self.c.budgets = NULL
        if budgets:
            self.budgets.follow()
            self.c.budgets = &self.budgets.c
        _match(self)
        mr_preemptor_read(&self.c)
        return 0

    cdef int _read_classes_anew(self) except -1:
        """Drop what is kept of classes that have been numbered anew."""
        self.importance.read_classes_anew()
        self.budgets.known = 0
        self.matches.clear()
        self.generation = self.state.classes.number
        return 0

    cdef int _follow_rows(self, bint has_budgets) except -1:
        """Follow the changes of rows, and refresh cached pointers."""
        self.importance.follow()
        if has_budgets:  # which pods of a unit violate some depends on their order
            self.importance.units.settle_all()
        self.c.usages = self.importance.usages_of()
        self.c.units = self.importance.units.all()
        return 0

    cdef int _run(self, int32_t row, mr_eviction* out) except -1:
        """Run a dry run on one row. `c.victims` has the bits of its victims until the next run."""
        cdef int32_t n
        cdef mr_pod_entry* pods = self.importance.pods_of(row, &n)
        self._make_room_for(n)
        if self.c.budgets != NULL:
            self.budgets.exempt(self.importance, pods, n)
        if self.search.nominations.rows:
            _set_nominated(self, row)
        mr_dry_run(&self.c, row, pods, n, out)
        return 0

    cdef int _make_room_for(self, int32_t entries) except -1:
        """Make room for the results of each entry of a row."""
        if entries > self.pods_limit or self.c.victims == NULL:
            self.victims.reserve(entries // 64 + 1)
            self.violating.reserve(entries // 64 + 1)
            self.pods_limit = 64 * <int32_t>min(self.victims.capacity, self.violating.capacity)
            self.costs.reserve(self.pods_limit)
            self.c.costs = self.costs.int32()
            self.c.victims = self.victims.uint64()
            self.c.violating = self.violating.uint64()
        return 0

    cdef list _victims(self, int32_t row, const mr_eviction* result):
        """The numbers of the victims of the row that was tried last, in upstream's order: those that
        violate a budget come first, and then all are sorted by importance."""
        cdef int32_t n, at
        cdef mr_pod_entry* pods = self.importance.pods_of(row, &n)
        cdef mr_pod_entry* victims
        cdef list out = []
        cdef int32_t count = 0
        self.evicted.reserve(n)
        victims = <mr_pod_entry*>self.evicted.data
        for violates in (True, False):
            for at in range(result.first, n):
                if self._is_victim(at, result) and self._violates(at, result) == violates:
                    victims[count] = pods[at]
                    count += 1
        mr_sort_as_upstream(victims, count)
        if self.importance.ties_by_uid:
            self.importance.order_ties(victims, count)
        for at in range(count):
            out += self.importance.pods_in(&victims[at])
        return out


cdef int _match(DryRuns runs) except -1:
    """Set the classes that match each constraint and term of the preemptor, as bits."""
    cdef Terms terms = runs.search.terms
    cdef int32_t known = 0, classes = <int32_t>len(runs.state.classes.keys), each, at
    cdef Buffer bits
    cdef uint64_t* word
    runs.c.words = 0
    if terms is None:
        return 0
    runs.c.words = (mr_matchers(&terms.c) + 63) // 64
    key = tuple([identity for identity, _, _ in terms.predicates])
    cached = runs.matches.pop(key, None)
    if cached is not None:
        bits, known = cached
    else:
        bits = Buffer(Journal(), runs.c.words * sizeof(uint64_t))
    bits.reserve(classes)
    for each in range(known, classes):
        word = bits.uint64() + <Py_ssize_t>each * runs.c.words
        for at, (_, counts, _) in enumerate(terms.predicates):
            if counts(each):
                word[at // 64] |= <uint64_t>1 << (at % 64)
    if len(runs.matches) >= MATCHES_LIMIT:
        runs.matches.clear()
    runs.matches[key] = bits, classes
    runs.removed.reserve(64 * runs.c.words)
    runs.removed_with.reserve(64 * runs.c.words)
    runs.c.matches = bits.uint64()
    runs.c.removed, runs.c.removed_with = runs.removed.int32(), runs.removed_with.int32()
    return 0


cdef int _set_nominated(DryRuns runs, int32_t row) except -1:
    """Set the nominated pods of a row that have at least the priority of the preemptor."""
    cdef Py_ssize_t at
    cdef list pods = runs.search.nominations.counted_pods(row, runs.search.search.shape.priority)
    runs.nominated.reserve(len(pods))
    for at, (_, pod_class) in enumerate(pods):
        runs.nominated.int32()[at] = pod_class
    runs.c.nominated = runs.nominated.int32()
    runs.c.n_nominated = <int32_t>len(pods)
    return 0
