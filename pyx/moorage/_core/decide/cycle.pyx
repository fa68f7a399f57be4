"""One scheduling cycle over the core, for one pod or a batch: choose, and account for the pod on its row.

Batches stay in C.
"""

from functools import partial

import numpy as np
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from moorage._core.base.buffers cimport Buffer
from moorage._core.base.change_log cimport LOG_ROW
from moorage._core.decide.chooser cimport FAILED, Chooser
from moorage._core.csrc cimport (
    mr_counter,
    mr_domain_of,
    mr_matched,
    mr_matched_add,
    mr_row,
    mr_row_add_pod,
    mr_verdict,
)
from moorage._core.state.pod_class cimport Shape
from moorage._core.decide.prepared cimport Prepared, Ready
from moorage._core.state.cluster_state cimport ClusterState

cdef enum:
    MARKED = 256  # pods between two marks


cdef class Cycle(Chooser):
    """The cycles of one profile over one cluster."""

    # ---- one pod -------------------------------------------------------------------------------------------

    def decide(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0, int32_t tried=-1):
        """Choose a node for one pod without placing it.

        Parameters
        ----------
        tried : int
            The row of a node that has been tried before in vain, and counts as looked at; -1 for none.

        Returns
        -------
        row : int
            The chosen row, or -1.
        start, evaluated : int
            Where the search began and how many nodes it counted (feasible and rejected).
        positions : (feasible,) int32 array
            Positions in the view's list, in the order found.
        totals : (feasible,) int64 array, or None where at most one node is feasible
        """
        cdef int32_t start, at
        cdef int64_t[::1] sums
        self._save()
        self._prepare(pod_class, node_name, pinned)
        start = self.rotation
        at = self._decide(&self.search, self._wanted())
        if tried >= 0 and not self._looked_at(tried, start):
            self.found.evaluated += 1
            self.rotation = (self.rotation + 1) % self.listed()
        if at == FAILED:
            self._raise_failure()
        totals = None
        if self.found.feasible > 1:
            sums = np.empty(self.found.feasible, dtype=np.int64)
            memcpy(&sums[0], self.found.totals, self.found.feasible * sizeof(int64_t))
            totals = np.asarray(sums)
        row = -1 if at < 0 else self.search.order[at]
        return row, start, self.found.evaluated, self._places(), totals

    def find(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """The first part of `decide`, after which others may have a say; the rest are `Chooser.score` and
        `Chooser.pick`.

        Returns
        -------
        start : int
            Where the search began.
        rows : (evaluated,) int32 array
            The rows that it looked at, feasible and rejected ones.
        positions : (feasible,) int32 array
            As those of `decide`.
        """
        cdef int32_t start, at
        self._save()
        self._prepare(pod_class, node_name, pinned)
        start = self.rotation
        if self._look(&self.search, self._wanted(), False):
            self._raise_failure()
        cdef int32_t[::1] rows = np.empty(self.found.evaluated + 1, dtype=np.int32)
        for at in range(self.found.evaluated):
            rows[at] = self.search.order[(start % self.search.n + at) % self.search.n]
        return start, np.asarray(rows[:self.found.evaluated]), self._places()

    def _places(self):
        """What was found, as positions in the view's list."""
        cdef int32_t[::1] places = np.empty(self.found.feasible + 1, dtype=np.int32)
        cdef int32_t row
        memcpy(&places[0], self.found.positions, self.found.feasible * sizeof(int32_t))
        positions = np.asarray(places[:self.found.feasible])
        if self.search.columns == NULL or self.in_placement:  # the searched list is a part of the view's
            for at, place in enumerate(positions.tolist()):
                row = self.search.order[<int32_t>place]
                positions[at] = (<int32_t*>self.state.view.position.data)[row] - 1
        return positions

    cdef bint _looked_at(self, int32_t row, int32_t start) noexcept:
        """Whether the last search, which began at `start`, looked at a row."""
        cdef int32_t at = self._place_of(row), n = self.search.n
        return at >= 0 and (at - start % n + n) % n < self.found.evaluated

    # ---- placing -------------------------------------------------------------------------------------------

    def place_run(self, int32_t pod_class, int32_t n, int32_t node_name=0, int32_t pinned=0,
                  int32_t[::1] nexts=None, int64_t[::1] marks=None, bint alike=True, enter=None):
        """Choose nodes for up to `n` pods of one class, one after the other, and account for each on its row.

        Stops at the first pod that fits nowhere, or about which a plugin fails (then `failed` is true, and
        nothing is as if that pod had been looked at). Returns the rows chosen, an int32 array. `enter` is
        called with them to enter the pods in the ledger; where it is a function of the core, no signal is
        handled in between. Without it that is left to the caller. `nexts`, where given, takes the rotation
        after each of the `n` pods; `marks`, one for each 256 pods, what the monotonic clock says after these,
        in nanoseconds. With `alike` the rotation moves as if all pods after a failed one were tried in vain;
        without, not even by that one.
        """
        if n < 0:
            raise ValueError(f"{n} pods")
        if nexts is not None and nexts.shape[0] < n:
            raise ValueError("a rotation for each pod is wanted")
        if marks is not None and marks.shape[0] < n // MARKED:
            raise ValueError("a mark for each 256 pods is wanted")
        cdef int32_t most = self._most(n)
        cdef int32_t[::1] rows = np.empty(most, dtype=np.int32)
        cdef int32_t* next_starts = NULL if nexts is None or n == 0 else &nexts[0]
        cdef int32_t placed = 0
        cdef Prepared one
        self.failed = False
        self.marks = NULL if marks is None or n < MARKED else &marks[0]
        self._save()
        self._make_room(most)
        one = self._ready(pod_class, node_name, pinned)
        self.batch = {one}
        if self._needs_care(one.shape):
            placed = self._place_one_by_one(pod_class, node_name, pinned, rows, next_starts)
        elif n:
            self.state.domains.refresh()
            self._count(one, pod_class)
            self._begin_run(most)
            with nogil:
                placed = self._run(&one.c, &rows[0], next_starts, most)
        self.marks = NULL
        if enter is not None:
            enter(np.asarray(rows[:placed]))
        if placed < n and not self.failed:
            self._fail_alike(n - placed if alike else 0, next_starts + placed if next_starts else NULL)
            self.state.view.refresh()  # a cycle in vain has seen the last placement all the same
        return np.asarray(rows[:placed])

    def place_many(self, const int32_t[::1] classes not None, const int32_t[::1] pinned not None,
                   int32_t[::1] rows not None, int32_t first=0, on_failure=None, int32_t[::1] nexts=None,
                   pods=None):
        """Choose nodes for pods of any classes, one after the other, and account for each on its row.

        Parameters
        ----------
        classes, pinned : (pods,) int32 arrays
            The class of each pod, and the symbol of the node that it is pinned to (0: none).
        rows : (pods,) int32 array
            Takes the row chosen for each pod, -1 where it fits nowhere.
        first : int
            The pod to begin with.
        on_failure : callable, optional
            Told each pod that fits nowhere, while the cluster is as it found it; of equal ones that find it
            so the first only. Where it answers true, nothing is as if that pod had been looked at.
        nexts : (pods,) int32 array, optional
            Takes the rotation after each pod.
        pods : sequence of Pod, optional
            Those that have a row are entered in the ledger as assumed, before `on_failure` is told and before
            any signal is handled. Without them that is left to the caller.

        Returns
        -------
        int
            The pod to go on with, once those before are in the ledger: the number of pods, or fewer where
            they cannot be placed in one go, where a plugin failed about it (`failed`), or where `on_failure`
            answered true.
        """
        cdef int32_t n = <int32_t>classes.shape[0], at = first, begin = first, entered = first
        cdef bint is_new, is_stopped
        cdef Ready** ready
        cdef int32_t* next_starts = NULL if nexts is None or n == 0 else &nexts[0]
        if pinned.shape[0] != n or rows.shape[0] != n or (nexts is not None and nexts.shape[0] != n) \
                or (pods is not None and len(pods) != n) or first < 0:
            raise ValueError("one number for each pod is wanted, and a pod to begin with")
        self.failed = False
        if not first < n:
            return n
        self._save()
        self._make_room(n - first)
        which = self._ready_all(classes, pinned, first)
        if which is None:
            return self._place_group_alone(classes, pinned, rows, first, on_failure, nexts, pods)
        ready = <Ready**>(<Buffer>which).data - first
        while at < n:
            self._begin_run(n - at)
            with nogil:
                is_new = False
                while at < n and not is_new and not self.failed:
                    begin, at = at, at + 1
                    while at < n and ready[at] == ready[begin] and pinned[at] == pinned[begin]:
                        at += 1
                    is_new = self._place_group(ready[begin], pinned[begin], &rows[begin],
                                               next_starts + begin if next_starts else NULL, at - begin)
            if self.failed:  # about the pod after those that were placed
                at = begin + self.placed
            if pods is not None:
                self.state.assume_many(classes, pods, rows, entered, at)
                entered = at
            if self.failed:
                return at
            if is_new and on_failure is not None:
                try:
                    is_stopped = on_failure(begin + self.placed)
                except BaseException:
                    ready[begin].failed = -1
                    raise
                if is_stopped:
                    self._fail_alike(1 + begin + self.placed - at, NULL)
                    ready[begin].failed = -1
                    return begin + self.placed
        if rows[n - 1] < 0:
            self.state.view.refresh()
        return at

    def forget_failures(self):
        """`place_many` tells anew of pods that fit nowhere."""
        cdef Prepared one
        for one in self.prepared.values():
            one.c.failed = -1

    def _place_group_alone(self, const int32_t[::1] classes, const int32_t[::1] pinned, int32_t[::1] rows,
                           int32_t first, on_failure, nexts, pods):
        """`place_many` for the first pods that are equal: what counts pods may be made between two runs."""
        cdef int32_t end = first + 1, at
        while end < classes.shape[0] and classes[end] == classes[first] and pinned[end] == pinned[first]:
            end += 1
        enter = None if pods is None else partial(self.state.assume_rows, classes[first], pods[first:end])
        placed = self.place_run(classes[first], end - first, 0, pinned[first],
                                None if nexts is None else nexts[first:end], enter=enter)
        at = first + <int32_t>len(placed)
        np.asarray(rows)[first:at] = placed
        if self.failed or at == end:
            return at
        np.asarray(rows)[at:end] = -1
        if on_failure is not None and on_failure(at):
            self._fail_alike(1 + at - end, NULL)
            return at
        return end

    cdef int32_t _most(self, int32_t pods) except -1:
        """How many of so many pods must be tried to know what becomes of all: one more than nodes have slots
        for. Looked at where the pods outnumber the rows, so that it costs less than they do."""
        cdef int64_t slots = 0
        cdef int32_t row
        cdef const mr_row* one
        if pods <= self.state.table.used or "NodeResourcesFit" not in self.plan.filters:
            return pods
        for row in range(self.state.table.used):
            one = self.state.table.row(0, row)
            slots += max(<int64_t>0, <int64_t>one.pods_max - one.pods)
        return <int32_t>min(<int64_t>pods, slots + 1)

    cdef int _make_room(self, int32_t pods) except -1:
        self.state.ledger.make_room(pods)
        self.state.ledger.reserve_rows(self.state.table.used)
        return 0

    cdef bint _place_group(self, Ready* one, int32_t pinned, int32_t* rows, int32_t* nexts,
                           int32_t n) noexcept nogil:
        """Place equal pods. Answers whether one fits nowhere that is the first of its kind to find it so."""
        cdef bint is_whole = one.search.columns != NULL and not self.in_placement
        cdef bint known = is_whole and one.failed == self.state.log.head
        cdef int32_t at
        if known:
            self.placed = 0
            self.found.evaluated = self.state.view.size
        elif one.by_node:
            self.placed = self._run_on_node(one, pinned, rows, nexts, n)
        else:
            self.placed = self._run(one, rows, nexts, n)
        if self.placed == n or self.failed:
            return False
        self._fail_alike(n - self.placed, nexts + self.placed if nexts else NULL)
        for at in range(self.placed, n):
            rows[at] = -1
        if is_whole:
            one.failed = self.state.log.head
        return not known

    cdef int32_t _run(self, Ready* one, int32_t* rows, int32_t* nexts, int32_t n) noexcept nogil:
        """Place equal pods until one fits nowhere, or a plugin fails. Answers how many were placed."""
        cdef int32_t placed, at
        for placed in range(n):
            at = self._choose(one, n - placed - 1)
            if at < 0:
                return placed
            rows[placed] = one.search.order[at]
            self._put(one, rows[placed])
            one.failed = -1
            self._tell(placed, nexts)
        return n

    cdef void _tell(self, int32_t placed, int32_t* nexts) noexcept nogil:
        """A pod has been placed: note the rotation, and every so often the time, for those who ask."""
        cdef timespec now
        if nexts:
            nexts[placed] = self.rotation
        if self.marks == NULL or (placed + 1) % MARKED:
            return
        clock_gettime(CLOCK_MONOTONIC, &now)
        self.marks[0] = now.tv_sec * <int64_t>1_000_000_000 + now.tv_nsec
        self.marks += 1

    cdef int32_t _run_on_node(self, Ready* one, int32_t pinned, int32_t* rows, int32_t* nexts,
                              int32_t n) noexcept nogil:
        """The same for pods that name their node: no other is looked at."""
        cdef int32_t row = self.state.table.find(pinned) if pinned else -1, placed
        cdef bint listed = row >= 0 and row < self.state.view.position.capacity \
            and (<int32_t*>self.state.view.position.data)[row] != 0
        one.search.pod.pinned_name = pinned
        self.found.evaluated = listed
        if not listed:
            if self.state.view.size:
                self.rotation %= self.state.view.size
            return 0
        for placed in range(n):
            self.rotation = (self.rotation % self.state.view.size + 1) % self.state.view.size
            if mr_verdict(one.search.plan, one.search.cluster, one.shape, &one.search.pod, row):
                return placed
            rows[placed] = row
            self._put(one, row)
            self._tell(placed, nexts)
        return n

    cdef void _put(self, Ready* one, int32_t row) noexcept nogil:
        """Account for a pod on a row."""
        cdef mr_matched** counted = one.counted
        if one.n_undo:
            self._keep(one, row)
        mr_row_add_pod(&self.cluster.ledger, row, one.shape, 1)
        (<int64_t*>self.state.table.generation.data)[row] = self.state.log.append(LOG_ROW, row)
        self.state.view.follow(row)
        while counted[0]:
            mr_matched_add(counted[0], row, 1)
            counted += 1

    cdef void _keep(self, Ready* one, int32_t row) noexcept nogil:
        """Save what a placement on a row changes."""
        cdef const mr_counter* counter
        cdef int32_t at
        for at in range(one.n_undo):
            counter = one.undo[at].counter
            self.state.journal.keep(&one.undo[at].kept, mr_domain_of(counter, row) if counter else row)
            if counter:
                self.state.journal.keep(&one.undo[at].kept, 0)

    cdef int32_t _place_one_by_one(self, int32_t pod_class, int32_t node_name, int32_t pinned,
                                   int32_t[::1] rows, int32_t* nexts) except -1:
        """A run in which each placement needs care."""
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t placed, at, row
        cdef Prepared one
        for placed in range(<int32_t>rows.shape[0]):
            one = self._ready(pod_class, node_name, pinned)
            at = self._choose(&one.c, rows.shape[0] - placed - 1)
            if at < 0:
                return placed
            row = one.c.search.order[at]
            self.state.table.add_pod(0, row, &shape.c, shape.ports, 1)
            self.state.domains.pod_moved(pod_class, False, row, 1)
            self.state.table.changed(LOG_ROW, row)
            rows[placed] = row
            self._tell(placed, nexts)
        return <int32_t>rows.shape[0]

    cdef void _fail_alike(self, int32_t pods, int32_t* nexts) noexcept nogil:
        """Move the rotation as if each of so many pods, of which the first has failed, were tried in vain;
        none takes that search back. Over the whole list these are full circles; over named nodes not."""
        cdef int64_t start = self.rotation, nodes = self.listed(), at
        if nodes == 0:
            return
        for at in range(pods if nexts else 0):
            nexts[at] = <int32_t>((start + at * self.found.evaluated) % nodes)
        start += (pods - <int64_t>1) * self.found.evaluated
        self.rotation = <int32_t>((start % nodes + nodes) % nodes)

    def clone(self, ClusterState state not None):
        """The same search over a fork."""
        cdef Cycle out = Cycle(state, self.plan, self.tie_break, self.percentage, self.random)
        out.rotation, out.outsiders, out.invalid_score = self.rotation, self.outsiders, self.invalid_score
        return out
