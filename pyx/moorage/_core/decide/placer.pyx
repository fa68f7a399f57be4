"""Placer: chooses nodes for pods in order and accounts for each on its row. The only loop that does."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from moorage._core.base cimport LOG_ROW, Buffer, Journal
from moorage._core.csrc cimport *
from moorage._core.decide.class_state cimport ClassSearch, ClassState
from moorage._core.decide.decider cimport Decider
from moorage._core.decide.plan cimport Plan
from moorage._core.decide.pod_batch cimport ALONE, NAMED, PORTS, Placements, PodBatch, PodSpan, Sink
from moorage._core.decide.search cimport Search
from moorage._core.decide.terms cimport Terms
from moorage._core.state cimport ClusterState, Shape

cdef Sink NOWHERE = Sink()


cdef class Placer:
    """Places the pods of one profile over one cluster.

    Parameters
    ----------
    state : ClusterState
    plan : Plan
    tie_break : TieBreak
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100.
    seed : int
        For the tie-break RANDOM.

    Attributes
    ----------
    search : Search
        Reads the cluster for one pod.
    decider : Decider
        Chooses a node by the search.
    unplaced : int
        How many of the pods that the last `place` has looked at fit nowhere.
    """

    cdef readonly Search search
    cdef readonly Decider decider
    cdef ClusterState state
    cdef int32_t placed
    cdef readonly int32_t unplaced
    cdef const char* nominated  # [row] whether pods are nominated there; NULL: nowhere
    cdef bint is_beside_nominated  # the last pod of a run was placed on such a row
    cdef Buffer searches  # of the runs that are placed together

    def __cinit__(self, ClusterState state not None, Plan plan not None, tie_break, percentage=0, seed=0):
        self.state = state
        self.search = Search(state, plan)
        self.decider = Decider(self.search, tie_break, percentage, seed)
        self.searches = Buffer(Journal(), sizeof(void*))

    def place(self, PodBatch batch not None, Placements out not None, int32_t first=0, int32_t end=-1,
              Sink sink=None, on_unschedulable=None):
        """Choose nodes for pods, one after the other, and account for each on its row.

        It ends before a pod whose route is one of `ALONE`, or that the search's nominator has a node for.

        Parameters
        ----------
        batch : PodBatch
        out : Placements
            Takes the row chosen for each pod, -1 where it fits nowhere.
        first, end : int
            The pod to begin with, and the one to end before; by default all for which there are rows.
        sink : Sink, optional
            Takes the pods that have a row, before `on_unschedulable` is called and before any signal is
            handled. Without one the caller enters them in the ledger.
        on_unschedulable : callable, optional
            Called with the place of each pod that fits nowhere, while the cluster is as that pod found it; of
            equal ones that find it so with the first alone. Where it returns true, the loop ends, and
            nothing is as if that pod had been looked at.

        Returns
        -------
        int
            `end`; or the place of the pod that needs a cycle of its own: one before which it ends, about
            which a plugin failed (`Decider.failed`), or for which `on_unschedulable` returned true.
        """
        if sink is None:
            sink = NOWHERE
        if end < 0:
            end = <int32_t>min(len(batch), out.n)
        if not 0 <= first or end > len(batch) or end > out.n:
            raise ValueError("a row for each pod is wanted, and a pod to begin with")
        self.decider.failed, self.unplaced = False, 0
        end = batch.until(ALONE, first, end)
        if first < end:
            end = self.search._follow(batch, first, end)
        if first >= end:
            return end
        # Where host ports or an open transaction take memory pod by pod, it can run out half-way.
        if self.state.journal.depth or batch.until(PORTS, first, end) < end:
            return self.state.atomically(self._place, batch, out, first, end, sink, on_unschedulable)
        return self._place(batch, out, first, end, sink, on_unschedulable)

    cpdef int32_t _place(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                         object on_unschedulable) except -1:
        cdef int32_t at = first, stop
        cdef bint together
        self.decider._save()
        self.state.ledger.make_room(end - first)
        self.state.ledger.reserve_rows(self.state.table.used)
        while at < end:
            stop = self._kernel_runs_until(batch, at, end)
            together = stop > at and self._prepare_all(batch, at, stop)
            if together:
                at = self._place_runs(batch, out, at, stop, sink, on_unschedulable)
            else:
                stop = min(batch.spans[batch.span_at(at)].end, end)
                at = self._place_run(batch, out, at, stop, sink, on_unschedulable)
            if at < stop:
                return at
        return end

    def tries(self, int32_t pods):
        """How many of so many equal pods must be tried to know what becomes of all: one more than nodes have
        slots for.

        Parameters
        ----------
        pods : int

        Returns
        -------
        int
            `pods` where they are no more than rows, so that it costs less than they do.
        """
        cdef int64_t slots = 0
        cdef int32_t row
        cdef const mr_row* node
        if pods <= self.state.table.used or "NodeResourcesFit" not in self.search.plan.filters:
            return pods
        for row in range(self.state.table.used):
            node = self.state.table.row(0, row)
            slots += max(<int64_t>0, <int64_t>node.pods_max - node.pods)
        return min(<int64_t>pods, slots + 1)

    # ---- runs of equal pods, without Python ----------------------------------------------------------------

    cdef int32_t _kernel_runs_until(self, PodBatch batch, int32_t first, int32_t end) noexcept:
        """The end of the pods from `first` on whose placements move no memory and ask no Python."""
        cdef int32_t each = batch.span_at(first), at = first
        if self.search.nominations.rows or self.search.plan.needs_python or self.search.plan.externals:
            return first
        while at < end and not batch.spans[each].route & (PORTS | NAMED):
            at = batch.spans[each].end
            each += 1
        return min(at, end)

    cdef bint _prepare_all(self, PodBatch batch, int32_t first, int32_t end) except -1:
        """Have the search of each run in `searches`; False where they cannot all be prepared at once."""
        cdef int32_t begin = batch.span_at(first), stop = batch.span_at(end - 1) + 1, each, pod_class
        cdef dict known = {}
        cdef set in_use = self.search.states.in_use
        cdef ClassState class_state
        cdef int64_t epoch
        cdef Shape shape
        cdef Terms terms
        for each in range(begin, stop):
            known[batch.spans[each].pod_class] = None
        for pod_class in known:  # all counters must be there before any is counted by
            shape = self.state.classes.shape(pod_class)
            terms = self.search._terms_of(pod_class, 0)
            if shape.is_pinned and (not terms.is_empty or self.search.in_placement):
                return False
        epoch = self.state.domains.epoch
        in_use.clear()
        for pod_class in known:
            class_state = self.decider._ready(pod_class, 0, 0)
            class_state.c.by_node = class_state.shape.is_pinned
            in_use.add(class_state)
            known[pod_class] = class_state
        self.state.domains.refresh()  # classes without terms are counted as well
        if self.state.domains.epoch != epoch:  # no room for the counters of all of them
            return False
        for pod_class, class_state in known.items():
            self.decider._count(class_state, pod_class)
        self.state.view.fill_cluster(&self.search.cluster)
        self.searches.reserve(stop - begin)
        for each in range(begin, stop):
            (<void**>self.searches.data)[each - begin] = &(<ClassState>known[batch.spans[each].pod_class]).c
        return True

    cdef int32_t _place_runs(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                             object on_unschedulable) except -1:
        """Place the pods from `first` to `end` by their `searches`; where it ends."""
        cdef int32_t at = first, begin = first, entered = first, each = batch.span_at(first), base = each
        cdef ClassSearch** searches = <ClassSearch**>self.searches.data
        cdef bint is_new
        self.nominated = NULL
        while at < end:
            self.decider._begin_run(end - at)
            with nogil:
                is_new = False
                while at < end and not is_new and not self.decider.failed:
                    begin, at = at, min(batch.spans[each].end, end)
                    is_new = self._place_equal(searches[each - base], batch.spans[each].pinned,
                                               out.data + begin, at - begin)
                    each += 1
            if self.decider.failed:  # about the pod after those that were placed
                at = begin + self.placed
            sink.enter(batch, out, entered, at)
            entered = at
            if self.decider.failed:
                return at
            if is_new and self._handle_unschedulable(searches[each - 1 - base], begin + self.placed, on_unschedulable):
                self._skip(1 + begin + self.placed - at)
                return begin + self.placed
        if out.data[end - 1] < 0:
            self.state.view.refresh()
        return end

    cdef bint _handle_unschedulable(self, ClassSearch* class_search, int32_t at, object on_unschedulable) except -1:
        """Report the first pod of its kind that fits nowhere; whether the loop is to end before it."""
        if on_unschedulable is not None and on_unschedulable(at):
            return True
        if self._searches_all_nodes(class_search) and not self.search.nominations.rows:
            self.search.states.note_failure(class_search, self.state.log.head)
            if on_unschedulable is None:
                (<ClassState>class_search.owner).failure = None  # that of another time
        return False

    cdef bint _is_known_failure(self, ClassSearch* class_search) noexcept nogil:
        """Whether nothing has changed since a pod of this kind fitted nowhere."""
        return self._searches_all_nodes(class_search) and self.search.states.is_failed(class_search, self.state.log.head)

    cdef bint _searches_all_nodes(self, ClassSearch* class_search) noexcept nogil:
        """Whether all nodes of the view are searched."""
        return class_search.search.columns != NULL and not self.search.in_placement

    cdef bint _place_equal(self, ClassSearch* class_search, int32_t pinned, int32_t* rows, int32_t n) noexcept nogil:
        """Place equal pods. Returns whether one fits nowhere that is the first of its kind to find it so."""
        cdef bint known = self._is_known_failure(class_search)
        cdef int32_t at
        if known:
            self.placed = 0
            self.search.found.evaluated = self.state.view.size
        elif class_search.by_node:
            self.placed = self._run_on_node(class_search, pinned, rows, n)
        else:
            self.placed = self._run(class_search, rows, n)
        if self.placed == n or self.decider.failed:
            return False
        self._skip(n - self.placed)
        self.unplaced += n - self.placed
        for at in range(self.placed, n):
            rows[at] = -1
        return not known

    cdef int32_t _run(self, ClassSearch* class_search, int32_t* rows, int32_t n) noexcept nogil:
        """Place equal pods until one fits nowhere, a plugin fails, or one is on a row with nominated pods.
        Returns how many were placed."""
        cdef const char* nominated = self.nominated
        cdef int32_t placed, at
        self.is_beside_nominated = False
        for placed in range(n):
            at = self.decider._choose(class_search, n - placed - 1)
            if at < 0:
                return placed
            rows[placed] = class_search.search.order[at]
            self._account(class_search, rows[placed])
            class_search.failed = -1
            if nominated and nominated[rows[placed]]:
                self.is_beside_nominated = True
                return placed + 1
        return n

    cdef int32_t _run_on_node(self, ClassSearch* class_search, int32_t pinned, int32_t* rows,
                              int32_t n) noexcept nogil:
        """`_run` for pods that are pinned to a node: no other is looked at."""
        cdef int32_t row = self.state.table.find(pinned) if pinned else -1, placed
        cdef bint listed = row >= 0 and row < self.state.view.position.capacity \
            and (<int32_t*>self.state.view.position.data)[row] != 0
        class_search.search.pod.pinned_name = pinned
        self.search.found.evaluated = listed
        if not listed:
            if self.state.view.size:
                self.decider.rotation %= self.state.view.size
            return 0
        for placed in range(n):
            self.decider.rotation = (self.decider.rotation % self.state.view.size + 1) % self.state.view.size
            if mr_verdict(class_search.search.plan, class_search.search.cluster, class_search.shape, &class_search.search.pod, row):
                return placed
            rows[placed] = row
            self._account(class_search, row)
        return n

    cdef void _account(self, ClassSearch* class_search, int32_t row) noexcept nogil:
        """Account for a pod on a row."""
        cdef mr_matched** counted = class_search.counted
        if class_search.n_undo:
            self._save_row(class_search, row)
        mr_row_add_pod(&self.search.cluster.ledger, row, class_search.shape, 1)
        (<int64_t*>self.state.table.generation.data)[row] = self.state.log.append(LOG_ROW, row)
        self.state.view.follow(row)
        while counted[0]:
            mr_matched_add(counted[0], row, 1)
            counted += 1

    cdef void _save_row(self, ClassSearch* class_search, int32_t row) noexcept nogil:
        """Save what a placement on a row changes."""
        cdef const mr_counter* counter
        cdef int32_t at
        for at in range(class_search.n_undo):
            counter = class_search.undo[at].counter
            self.state.journal.save_reserved(
                &class_search.undo[at].location, mr_domain_of(counter, row) if counter else row
            )
            if counter:
                self.state.journal.save_reserved(&class_search.undo[at].location, 0)

    # ---- one run, with Python where it is needed -----------------------------------------------------------

    cdef int32_t _place_run(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                            object on_unschedulable) except -1:
        """Place the pods from `first` to `end`, which are equal; where it ends."""
        cdef PodSpan* span = &batch.spans[batch.span_at(first)]
        cdef ClassState class_state = self.decider._ready(span.pod_class, span.node_name, span.pinned)
        cdef bint is_new = not (self._is_known_failure(&class_state.c) and not self.search.nominations.rows)
        cdef int32_t at
        self.search.states.in_use = {class_state}
        if not is_new:
            self.placed, self.search.found.evaluated = 0, self.state.view.size
        elif class_state.shape.ports or self.search.plan.needs_python or self._must_filter_each():
            self.placed = self._place_each(span, out.data + first, end - first)
        else:
            self.placed = self._place_together(span, class_state, out.data + first, end - first)
        at = first + self.placed
        sink.enter(batch, out, first, at)
        if at == end or self.decider.failed:
            return at
        self._skip(end - at)
        self.unplaced += end - at
        self.state.view.refresh()  # a cycle in vain has seen the last placement all the same
        memset(out.data + at, -1, (end - at) * sizeof(int32_t))
        if is_new and self._handle_unschedulable(&class_state.c, at, on_unschedulable):
            self._skip(1 + at - end)
            return at
        return end

    cdef bint _must_filter_each(self) noexcept:
        """Whether each placement may change what filters say of nodes with their nominated pods: terms count
        pods of all rows, and what plugins outside the core look at is not known."""
        return self.search.nominations.rows and (self.search.terms is not None or self.search.plan.externals)

    cdef int32_t _place_together(self, const PodSpan* span, ClassState class_state, int32_t* rows,
                                 int32_t n) except -1:
        """A run in which a placement changes the row alone, and what nominated pods leave of that row."""
        cdef int32_t placed = 0
        self.state.domains.refresh()
        self.decider._count(class_state, span.pod_class)
        self.decider._begin_run(n)
        while True:
            self.nominated = self.search.nominations.has_pods.data if self.search.nominations.rows else NULL
            with nogil:
                placed += self._run(&class_state.c, rows + placed, n - placed)
            if placed == n or not self.is_beside_nominated:
                return placed
            class_state = self.decider._ready(span.pod_class, span.node_name, span.pinned)

    cdef int32_t _place_each(self, const PodSpan* span, int32_t* rows, int32_t n) except -1:
        """A run in which each placement may move memory, change more than the row, or ask Python."""
        cdef Shape shape = self.state.classes.shape(span.pod_class)
        cdef int32_t placed, at, row
        cdef ClassState class_state
        for placed in range(n):
            class_state = self.decider._ready(span.pod_class, span.node_name, span.pinned)
            at = self.decider._choose(&class_state.c, n - placed - 1)
            if at < 0:
                return placed
            row = class_state.c.search.order[at]
            class_state.c.failed = -1
            self.state.table.add_pod(0, row, &shape.c, shape.ports, 1)
            self.state.domains.pod_moved(span.pod_class, False, row, 1)
            self.state.table.changed(LOG_ROW, row)
            rows[placed] = row
        return n

    def skip(self, int64_t pods):
        """Move the rotation as if so many more pods, equal to the last one that failed, were tried in vain.

        Parameters
        ----------
        pods : int
        """
        self._skip(pods + 1)

    cdef void _skip(self, int64_t pods) noexcept nogil:
        """Move the rotation as if each of so many pods, of which the first has failed, were tried in vain;
        none takes that search back. Over the whole list these are full circles; over named nodes not."""
        cdef int64_t start = self.decider.rotation, nodes = self.search.listing.size
        if nodes == 0:
            return
        start += (pods - <int64_t>1) * self.search.found.evaluated
        self.decider.rotation = <int32_t>((start % nodes + nodes) % nodes)

    def clone(self, ClusterState state not None):
        """The same placer over a fork.

        Parameters
        ----------
        state : ClusterState

        Returns
        -------
        Placer
        """
        cdef Decider mine = self.decider, its
        cdef Placer out = Placer(state, self.search.plan, mine.tie_break, mine.percentage, mine.random)
        its = out.decider
        its.rotation, its.has_extenders = mine.rotation, mine.has_extenders
        out.search.invalid_score = self.search.invalid_score
        return out
