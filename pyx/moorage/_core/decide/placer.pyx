"""Placer: places the pods of a batch in order, each on the node chosen for it.

It is the loop of all scheduling verbs. A placed pod is counted on its row at once, so that the next pod sees
the node's remaining resources.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t
from libc.string cimport memset

from moorage._core.base cimport LOG_ROW, Buffer, Journal
from moorage._core.csrc cimport *
from moorage._core.decide.class_state cimport ClassSearch, ClassState, ClassStates
from moorage._core.decide.decider cimport Decider
from moorage._core.decide.plan cimport Plan
from moorage._core.decide.pod_batch cimport (
    ALONE, CLAIMS, DEVICES, NAMED, PORTS, PROFILE, SHARES,
    WAITS, PodBatch, PodSpan, SharedVolume, count_pods,
)
from moorage._core.decide.search cimport Search
from moorage._core.decide.batch_rows cimport Placements, Sink
from moorage._core.decide.terms cimport NodeDevices, Terms
from moorage._core.state cimport ClusterState, Shape, prefetch

cdef Sink NOWHERE = Sink()
cdef SharedVolume NO_SHARED_VOLUMES
NO_SHARED_VOLUMES.pod = INT32_MAX

cdef enum:
    FEW_NODES = 100_000  # to examine; for fewer, releasing the GIL costs more than other threads gain
    LINE = 64     # bytes
    WINDOW = 256  # bytes of bits of 2,048 positions


cdef struct Runs:  # the progress of a placer
    ClassSearch** searches  # of the next runs
    const PodSpan* spans
    int32_t begin, at       # the first pod of the last run, and the pod after it


cdef int32_t _follow_nominator(Search search, PodBatch batch, int32_t first, int32_t end) except -1:
    """Follow the nominator for the pods from `first` to `end`. Returns the first nominated one, or `end`."""
    if search.nominator is None:
        return end
    if not search.nominator.by_node:
        search.nominations.replace(())
        return end
    end = batch.until(CLAIMS, first, end)  # volumes of nominated pods are not counted in the core
    end = batch.until_one_of(search.nominator.nodes, first, end)
    if first < end:
        search.follow_nominator(search.nominator, batch.pod(first))
    return end


cdef inline void _prefetch_lines(const void* first, int32_t nbytes) noexcept nogil:
    """Prefetch some bytes."""
    cdef int32_t line
    for line in range((nbytes + LINE - 1) // LINE):
        prefetch(<const char*>first + line * LINE)


cdef class Placer:
    """Places the pods of one profile over one cluster.

    Parameters
    ----------
    state : ClusterState
    plan : Plan
        The filters and scores of the profile.
    tie_break : TieBreak
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100.
    seed : int
        The seed of the tie-break RANDOM.

    Attributes
    ----------
    search : Search
        The search of the profile.
    decider : Decider
        Chooses nodes by `search`.
    """

    cdef readonly Search search
    cdef readonly Decider decider
    cdef ClusterState state
    cdef int32_t placed
    cdef Buffer searches  # ClassSearch* of each run that is placed without Python
    cdef int32_t* rows    # of the pods of the batch
    cdef const SharedVolume* shared  # of the next pod that has any

    def __cinit__(self, ClusterState state not None, Plan plan not None, tie_break, percentage=0, seed=0):
        self.state = state
        self.search = Search(state, plan)
        self.decider = Decider(self.search, tie_break, percentage, seed)
        self.searches = Buffer(Journal(), sizeof(void*))

    def place(self, PodBatch batch not None, Placements out not None, int32_t first=0, int32_t end=-1,
              Sink sink=None, on_unschedulable=None):
        """Choose a node for each pod of a batch, one after the other, and count the pod on its row.

        It stops before a pod that needs a scheduling cycle of its own: its route has a bit of `Route.ALONE`,
        it is itself nominated, or it has `Route.CLAIMS` while pods are nominated.

        Parameters
        ----------
        batch : PodBatch
        out : Placements
            Receives the row of each pod, -1 if the pod is unschedulable.
        first, end : int
            The index of the first pod, and the index after the last. `end` -1: all pods of `batch` for which
            `out` has room.
        sink : Sink, optional
            Receives the placed pods, before `on_unschedulable` is called and before any signal is handled.
            None: the caller enters them in the ledger.
        on_unschedulable : callable, optional
            Called with the index of each unschedulable pod, while the cluster is as in that pod's cycle; of
            equal pods in the same state of the cluster only for the first. It returns why, for `failures` of
            `out`. If it returns None, the loop stops before that pod, and the rotation is as before its
            search.

        Returns
        -------
        int
            `end`, or the index of the pod before which it stopped: the pod needs a cycle of its own, a plugin
            failed for it (`Decider.failed`), or `on_unschedulable` returned None.

        Raises
        ------
        ValueError
            `first` or `end` is outside `batch` or `out`.
        """
        if sink is None:
            sink = NOWHERE
        if end < 0:
            end = <int32_t>min(len(batch), out.n)
        if not 0 <= first or end > len(batch) or end > out.n:
            raise ValueError("a row for each pod is wanted, and a pod to begin with")
        self.decider.failed = False
        self.rows, self.shared = out.data, &NO_SHARED_VOLUMES
        if batch.shared is not None:
            self.shared = <const SharedVolume*>batch.shared.data
        end = batch.until(ALONE, first, end)
        if first < end:
            end = _follow_nominator(self.search, batch, first, end)
        if first >= end:
            return end
        # Host ports, devices, Python and open transactions take memory for each pod, which can run out in the
        # middle of a run.
        self.search.is_placing = True
        try:
            if self.state.journal.depth or self.search.plan.needs_python \
                    or batch.until(PORTS | DEVICES, first, end) < end:
                end = self.state.atomically(self._place, batch, out, first, end, sink, on_unschedulable)
            else:
                end = self._place(batch, out, first, end, sink, on_unschedulable)
        finally:
            self.search.is_placing = False
        if self.decider.failed:
            self.search.plan.raise_interrupt()
        return end

    cpdef int32_t _place(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                         object on_unschedulable) except -1:
        """Place the pods from `first` to `end`, run by run; see `place` for the rest."""
        cdef int32_t at = first, stop
        if batch is None or out is None or sink is None or not 0 <= first <= end <= min(len(batch), out.n):
            raise ValueError(f"there are no pods {first} to {end} to place")
        self.decider._save()
        self.state.ledger.make_room(end - first, batch.replicas is not None)
        self.state.ledger.reserve_rows(self.state.table.used)
        while at < end:
            stop = self._kernel_runs_until(batch, at, end)
            if stop > at:
                stop = self._prepare_all(batch, at, stop)
            if stop > at:
                at = self._place_runs(batch, out, at, stop, sink, on_unschedulable)
            else:
                stop = min(batch.spans[batch.span_at(at)].end, end)
                if self.search.plan.follows:  # they see each pod in the ledger
                    stop = at + 1
                at = self._place_run(batch, out, at, stop, sink, on_unschedulable)
            if at < stop:
                return at
        return end

    def reads_rows_alone(self, PodBatch batch not None, int32_t first, int32_t end):
        """Return whether the decisions about pods depend on the searched rows and the rotation alone.

        They do not with constraints or terms, which count pods of other rows, with host ports or volumes, or
        with plugins outside the core.

        Parameters
        ----------
        batch : PodBatch
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        bool
        """
        cdef int32_t each
        if self.search.plan.externals or self.search.plan.needs_python or first >= end:
            return False
        for each in range(batch.span_at(first), min(batch.span_at(end - 1) + 1, batch.n_spans)):
            if batch.spans[each].route & ~(WAITS | -PROFILE):
                return False
            if not self.search._terms_of(batch.spans[each].pod_class, 0).is_empty():
                return False
        return True

    def account(self, PodBatch batch not None, Placements out not None, int32_t first, int32_t end):
        """Count pods on rows that are chosen already, as `place` counts those that it places.

        Parameters
        ----------
        batch : PodBatch
        out : Placements
            The row of each pod, -1 for none.
        first, end : int
            The index of the first pod, and the index after the last.

        Raises
        ------
        IndexError
            There are no such pods, or a row is not in the node table.
        """
        cdef int32_t at, each
        if not 0 <= first <= end <= min(len(batch), out.n):
            raise IndexError(f"there are no pods {first} to {end}")
        for at in range(first, end):
            if out.data[at] >= self.state.table.used:
                self.state.table.check_row(out.data[at])
        each = batch.span_at(first)
        for at in range(first, end):
            while batch.spans[each].end <= at:
                each += 1
            if out.data[at] >= 0:
                count_pods(self.state, batch.spans[each].pod_class, out.data[at], 1)

    def tries(self, int32_t pods):
        """Return how many of a number of equal pods must be tried to know the result of all.

        Once one pod is unschedulable, all that follow are. NodeResourcesFit admits no more pods than the
        nodes have free slots (allocatable pods minus pods), so one more than that is enough.

        Parameters
        ----------
        pods : int
            The number of equal pods.

        Returns
        -------
        int
            At most `pods`. It is `pods` if these are no more than the nodes, or NodeResourcesFit is off.
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
        """The end of the pods from `first` on that kernels place without Python and without new memory."""
        cdef int32_t each = batch.span_at(first), at = first
        if self.search.nominations.rows or self.search.plan.needs_python or self.search.plan.externals:
            return first
        while at < end and not batch.spans[each].route & (PORTS | NAMED | DEVICES):
            at = batch.spans[each].end
            each += 1
        return min(at, end)

    cdef int32_t _prepare_all(self, PodBatch batch, int32_t first, int32_t end) except -1:
        """Prepare the search of each of the leading runs in `searches`, as many as can be prepared together;
        return the index after their last pod."""
        cdef int32_t begin = batch.span_at(first), stop = batch.span_at(end - 1) + 1, each
        cdef ClassStates states = self.search.states
        cdef ClassState class_state
        cdef int64_t epoch
        cdef Terms terms
        states.release()
        for each in range(begin, stop):  # all counters must exist before any class collects its counters
            if each > begin and batch.spans[each].pod_class == batch.spans[each - 1].pod_class:
                continue
            if states.used(batch.spans[each].pod_class) is None:
                if each > begin and self.state.domains.exceeds_limit():
                    stop = each  # further counters would replace those of the classes before
                    break
                class_state = states.get(batch.spans[each].pod_class, 0, 0)
                terms = self.search._terms_of(class_state.pod_class, 0)
                if class_state.shape.is_pinned and (
                    not self.search.plan.narrows or not terms.is_empty() or self.search.in_placement
                ):
                    stop = each
                    break
                states.use(class_state)
        if stop == begin:
            return first
        end = min(end, batch.spans[stop - 1].end)
        epoch = self.state.domains.epoch
        for each in range(<int32_t>len(states.in_use)):
            class_state = self.decider._prepare_class((<ClassState>states.in_use[each]).pod_class, 0, 0)
            class_state.c.by_node = class_state.shape.is_pinned
            states.in_use[each] = class_state
        self.state.domains.refresh()  # counters of other classes count pods without terms too
        if self.state.domains.epoch != epoch:
            return first
        for class_state in states.in_use:
            self.decider._collect_counters(class_state, class_state.pod_class)
        self.search.cluster = self.state.domains.cluster
        self.searches.reserve(stop - begin)
        for each in range(begin, stop):
            if class_state.pod_class != batch.spans[each].pod_class:
                class_state = states.used(batch.spans[each].pod_class)
            (<void**>self.searches.data)[each - begin] = &class_state.c
        return end

    cdef int32_t _place_runs(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                             object on_unschedulable) except -1:
        """Place the pods from `first` to `end` by `searches`. Returns the index where it stops."""
        cdef Runs runs
        cdef int32_t entered = first, at
        cdef bint is_new
        runs.searches, runs.spans = <ClassSearch**>self.searches.data, batch.spans + batch.span_at(first)
        runs.begin = runs.at = first
        while runs.at < end:
            self.decider._begin_run(end - runs.at)
            if <int64_t>(end - runs.at) * self.state.view.size < FEW_NODES:
                is_new = self._place_next(&runs, out.data, end)
            else:
                with nogil:
                    is_new = self._place_next(&runs, out.data, end)
            if self.decider.failed:  # for the pod after those that were placed
                runs.at = runs.begin + self.placed
            sink.enter(batch, out, entered, runs.at)
            at = runs.begin + self.placed if is_new else runs.at
            if on_unschedulable is not None:
                self._note_failures(batch, out, entered, at)
            if self.decider.failed:
                return runs.at
            if is_new and self._handle_unschedulable((runs.searches - 1)[0], at, on_unschedulable):
                self._skip(1 + at - runs.at)
                return at
            if on_unschedulable is not None:
                self._note_failures(batch, out, at, runs.at)
            entered = runs.at
        if out.data[end - 1] < 0:
            self.state.view.refresh()
        return end

    cdef bint _place_next(self, Runs* runs, int32_t* rows, int32_t end) noexcept nogil:
        """Place runs up to `end`. Returns whether it stopped after a run of which a pod is unschedulable that
        was not known to be."""
        cdef bint is_new = False
        while runs.at < end and not is_new and not self.decider.failed:
            runs.begin, runs.at = runs.at, min(runs.spans[0].end, end)
            if runs.at < end:
                self._prefetch(runs.searches[1], runs.searches[2] if runs.spans[1].end < end else NULL)
            is_new = self._place_equal(runs.searches[0], runs.spans, rows + runs.begin, runs.at - runs.begin)
            runs.searches += 1
            runs.spans += 1
        return is_new

    cdef void _prefetch(self, const ClassSearch* following, const ClassSearch* later) noexcept nogil:
        """Prefetch what the next run reads first, and of the run after it where to find that.

        Of many classes in random order, what is kept is not in the processor's caches.
        """
        cdef int32_t start = self.decider.rotation + self.search.found.evaluated  # more or less
        if later:
            _prefetch_lines(later, sizeof(ClassSearch))
        _prefetch_lines(following.shape, sizeof(mr_shape))
        if following.candidates:
            prefetch(&following.candidates.key.size)
            prefetch(&following.candidates.cursor)
        if following.search.static_ok:
            start -= following.search.n if start >= following.search.n else 0
            _prefetch_lines(following.search.static_ok + start // MR_LANES, WINDOW)

    cdef bint _handle_unschedulable(self, ClassSearch* class_search, int32_t at,
                                    object on_unschedulable) except -1:
        """Report an unschedulable pod, and note its class as failed. Returns whether to stop before it."""
        cdef object failure = None if on_unschedulable is None else on_unschedulable(at)
        if failure is None and on_unschedulable is not None:
            return True
        (<ClassState>class_search.owner).failure = failure
        if self._searches_all_nodes(class_search) and not self.search.nominations.rows:
            self.search.states.note_failure(class_search, self.state.log.head)
        return False

    cdef int _note_failures(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Give the unschedulable pods from `first` to `end` of the present runs the failures of their
        classes."""
        cdef int32_t at
        for at in range(first, end):
            if out.data[at] < 0:
                out.failures[at] = self.search.states.used(batch.spans[batch.span_at(at)].pod_class).failure
        return 0

    cdef bint _is_known_failure(self, ClassSearch* class_search, const PodSpan* span) noexcept nogil:
        """Whether nothing has changed since a pod of the class was unschedulable, as the pods of the run
        are. Volumes that they share with other pods may make them fit elsewhere."""
        return self._searches_all_nodes(class_search) and not span.route & SHARES \
            and self.search.states.is_failed(class_search, self.state.log.head)

    cdef bint _searches_all_nodes(self, ClassSearch* class_search) noexcept nogil:
        """Whether all nodes of the view are searched."""
        return class_search.search.columns != NULL and not self.search.in_placement

    cdef bint _place_equal(self, ClassSearch* class_search, const PodSpan* span, int32_t* rows,
                           int32_t n) noexcept nogil:
        """Place equal pods. Returns whether one is unschedulable that was not known to be."""
        cdef bint known = self._is_known_failure(class_search, span)
        cdef int32_t at
        if known:
            self.placed = 0
            self.search.found.evaluated = self.state.view.size
        elif class_search.by_node:
            self.placed = self._run_on_node(class_search, span.pinned, rows, n)
        else:
            self.placed = self._run(class_search, rows, n, NULL)
        if self.placed == n or self.decider.failed:
            return False
        self._skip(n - self.placed)
        for at in range(self.placed, n):
            rows[at] = -1
        return not known

    cdef int32_t _run(self, ClassSearch* class_search, int32_t* rows, int32_t n,
                      const char* nominated) noexcept nogil:
        """Place equal pods until one is unschedulable, or a plugin fails, or a pod joins nominated pods.

        `nominated` is 1 for each row with nominated pods; NULL: there are none. Returns the number of placed
        pods.
        """
        cdef int32_t placed, at
        for placed in range(n):
            if not self._has_room_where_shared(class_search, rows + placed):
                return placed
            at = self.decider._choose(class_search, n - placed - 1)
            if at < 0:
                return placed
            rows[placed] = class_search.search.order[at]
            self._account(class_search, rows[placed])
            self._count_shared(class_search, rows + placed)
            class_search.failed = -1
            if nominated and nominated[rows[placed]]:
                return placed + 1
        return n

    cdef int32_t _run_on_node(self, ClassSearch* class_search, int32_t pinned, int32_t* rows,
                              int32_t n) noexcept nogil:
        """Place equal pods that are pinned to one node until one is rejected. Returns the number placed."""
        cdef int32_t row = self.state.table.find(pinned) if pinned else -1, placed
        cdef bint listed = row >= 0 and row < self.state.view.position.capacity \
            and self.state.view.position_column()[row] != 0
        class_search.search.pod.pinned_name = pinned
        self.search.found.evaluated = listed
        if not listed:
            if self.state.view.size:
                self.decider.rotation %= self.state.view.size
            return 0
        for placed in range(n):
            if not self._has_room_where_shared(class_search, rows + placed):
                return placed
            self.decider.rotation = (self.decider.rotation % self.state.view.size + 1) % self.state.view.size
            if mr_verdict(class_search.search.plan, class_search.search.cluster, class_search.shape,
                          &class_search.search.pod, row):
                return placed
            rows[placed] = row
            self._account(class_search, row)
            self._count_shared(class_search, rows + placed)
        return n

    cdef void _account(self, ClassSearch* class_search, int32_t row) noexcept nogil:
        """Count a pod of a class on a row: its requests, the change log and the class's counters."""
        cdef mr_matched** counted = class_search.counted
        if class_search.n_undo:
            self._save_row(class_search, row)
        mr_row_add_pod(&self.search.cluster.ledger, row, class_search.shape, 1)
        if class_search.search.pod.volumes:
            mr_volumes_attach(class_search.search.pod.volumes, row)
        self.state.table.generation_column()[row] = self.state.log.append(LOG_ROW, row)
        self.state.view.follow(row)
        while counted[0]:
            mr_matched_add(counted[0], row, 1)
            counted += 1

    cdef bint _has_room_where_shared(self, ClassSearch* class_search, const int32_t* pod) noexcept nogil:
        """Whether rows that may have volumes of a pod already would have room for them once more.

        If so, the filters about volumes decide about these rows as about others. `pod` points into `rows`.
        """
        cdef const mr_volume_demand* demand = class_search.search.pod.volumes
        cdef const SharedVolume* each
        cdef int32_t at = <int32_t>(pod - self.rows), row
        if demand == NULL:
            return True
        while self.shared.pod < at:
            self.shared += 1
        each = self.shared
        while each.pod == at:
            row = each.place if each.place >= 0 else self.rows[~each.place]
            if row >= 0 and mr_lacks_room(&demand.attachments[each.driver], row):
                self.search.found.evaluated = 0
                return False
            each += 1
        return True

    cdef void _count_shared(self, ClassSearch* class_search, const int32_t* pod) noexcept nogil:
        """Correct the room of the row where a pod was placed by the volumes that are there already."""
        cdef const SharedVolume* each = self.shared
        cdef int32_t at = <int32_t>(pod - self.rows), row
        cdef uint64_t counted = 0
        while each.pod == at:
            row = each.place if each.place >= 0 else self.rows[~each.place]
            if row == pod[0] and not counted >> each.volume & 1:
                class_search.search.pod.volumes.attachments[each.driver].room[row] += 1
                counted |= <uint64_t>1 << each.volume
            each += 1

    cdef void _save_row(self, ClassSearch* class_search, int32_t row) noexcept nogil:
        """Save in the journal the items that a placement on a row changes."""
        cdef const mr_counter* counter
        cdef int32_t at
        for at in range(class_search.n_undo):
            counter = class_search.undo[at].counter
            self.state.journal.save_reserved(
                &class_search.undo[at].location, mr_domain_of(counter, row) if counter else row
            )
            if counter:
                self.state.journal.save_reserved(&class_search.undo[at].location, 0)

    # ---- a run of equal pods, with Python where it is needed -----------------------------------------------

    cdef int32_t _place_run(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                            object on_unschedulable) except -1:
        """Place the equal pods from `first` to `end`. Returns the index where it stops."""
        cdef PodSpan* span = &batch.spans[batch.span_at(first)]
        cdef ClassState class_state = self.decider._prepare_class(span.pod_class, span.node_name, span.pinned)
        cdef bint is_new = self.search.nominations.rows or not self._is_known_failure(&class_state.c, span)
        cdef int32_t at
        self.search.states.release()
        self.search.states.use(class_state)
        if not is_new:
            self.placed, self.search.found.evaluated = 0, self.state.view.size
        elif class_state.shape.ports or self.search.plan.needs_python or self._must_filter_each() \
                or self.search.states.devices_of(span.pod_class) is not None:
            self.placed = self._place_each(batch, span, out.data + first, end - first)
        else:
            self.placed = self._place_together(span, class_state, out.data + first, end - first)
        at = first + self.placed
        sink.enter(batch, out, first, at)
        if self.placed:
            for follow in self.search.plan.follows:
                follow()
        if at == end or self.decider.failed:
            return at
        self._skip(end - at)
        self.state.view.refresh()  # the failed cycle took a snapshot after the last placement
        memset(out.data + at, -1, (end - at) * sizeof(int32_t))
        if is_new and self._handle_unschedulable(&class_state.c, at, on_unschedulable):
            self._skip(1 + at - end)
            return at
        if on_unschedulable is not None:
            self._note_failures(batch, out, at, end)
        return end

    cdef bint _must_filter_each(self) noexcept:
        """Whether a placement may change the verdicts of other rows with their nominated pods.

        Terms count pods of all rows, and plugins outside the core may read any row.
        """
        return self.search.nominations.rows and (self.search.terms is not None or self.search.plan.externals)

    cdef int32_t _place_together(self, const PodSpan* span, ClassState class_state, int32_t* rows,
                                 int32_t n) except -1:
        """Place a run whose placements change no verdicts of other rows. Returns the number placed."""
        cdef const char* nominated
        cdef int32_t placed = 0, first
        self.state.domains.refresh()
        self.decider._collect_counters(class_state, span.pod_class)
        self.decider._begin_run(n)
        while True:
            first = placed
            nominated = self.search.nominations.has_pods.data if self.search.nominations.rows else NULL
            with nogil:
                placed += self._run(&class_state.c, rows + placed, n - placed, nominated)
            if placed == n or placed == first or not nominated or not nominated[rows[placed - 1]]:
                return placed
            class_state = self.decider._prepare_class(span.pod_class, span.node_name, span.pinned)

    cdef int32_t _place_each(self, PodBatch batch, const PodSpan* span, int32_t* rows, int32_t n) except -1:
        """Place a run whose pods are prepared one by one, since each may need memory, Python or other rows.

        Returns the number of placed pods.
        """
        cdef Shape shape = self.state.classes.shape(span.pod_class)
        cdef int32_t pod_class = span.pod_class
        cdef NodeDevices devices = self.search.states.devices_of(span.pod_class)
        cdef int32_t placed, at, row
        cdef ClassState class_state
        for placed in range(n):
            class_state = self.decider._prepare_class(span.pod_class, span.node_name, span.pinned)
            if not self._has_room_where_shared(&class_state.c, rows + placed):
                return placed
            if devices is not None and not devices.decides(<int32_t>(rows + placed - self.rows)):
                self.search.found.evaluated = 0
                return placed
            at = self.decider._choose(&class_state.c, n - placed - 1)
            if at < 0:
                return placed
            row = class_state.c.search.order[at]
            if devices is not None:
                devices.take(<int32_t>(rows + placed - self.rows), row)
                # The class of the run leaves out requests that the devices serve.
                pod_class = self.state.classes.intern(batch.pods[<int32_t>(rows + placed - self.rows)])
                shape = self.state.classes.shape(pod_class)
            class_state.c.failed = -1
            self.state.table.add_pod(0, row, &shape.c, shape.ports, 1)
            if class_state.c.search.pod.volumes:
                mr_volumes_attach(class_state.c.search.pod.volumes, row)
            self.state.domains.pod_moved(pod_class, False, row, 1)
            self.state.table.changed(LOG_ROW, row)
            rows[placed] = row
            self._count_shared(&class_state.c, rows + placed)
        return n

    def skip(self, int64_t pods):
        """Advance the rotation as if more pods, equal to the last unschedulable one, had been tried.

        Parameters
        ----------
        pods : int
            The number of pods.
        """
        self._skip(pods + 1)

    cdef void _skip(self, int64_t pods) noexcept nogil:
        """Advance the rotation as if `pods` equal pods had been tried, of which the first one was.

        0 undoes the search of the first. A failed search over the whole list ends where it began; over a part
        of the list it moves the rotation by the number of examined nodes.
        """
        cdef int64_t start = self.decider.rotation, nodes = self.search.listing.size
        if nodes == 0:
            return
        start += (pods - <int64_t>1) * self.search.found.evaluated
        self.decider.rotation = <int32_t>((start % nodes + nodes) % nodes)

    def clone(self, ClusterState state not None):
        """Return a placer of the same profile, rotation and random state over another cluster state.

        Parameters
        ----------
        state : ClusterState
            A fork of this placer's cluster state.

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
