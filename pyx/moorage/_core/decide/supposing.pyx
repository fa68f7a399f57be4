"""Supposing: what the filters say of a node if some of its pods were gone and others were there.

For nominated pods, which are expected on their node, and for preemption, which takes pods away in thought
(kube-scheduler v1.36, AddPod and RemovePod of the PreFilter extensions). The change is made, the filters are
asked, and all is undone.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.csrc cimport (
    MR_EXTERNAL,
    MR_SHAPE_WIDE,
    MR_VERDICT_SHIFT,
    mr_external_filter,
    mr_filter,
    mr_inter_pod_skips,
    mr_row_add_pod,
)
from moorage._core.base.change_log cimport LOG_ORDER
from moorage._core.decide.nominations cimport Judgements
from moorage._core.decide.search cimport Search
from moorage._core.state.pod_class cimport Shape

cdef uint64_t ALL = ~<uint64_t>0

cdef enum:
    JUDGED_CLASSES = 1 << 8  # whose verdicts with nominated pods are kept


cdef class Supposing(Search):
    """The search of one profile over one cluster, which may ask what if.

    Attributes
    ----------
    judging : callable, optional
        Told (row, pods) while nominated pods are on a row, and (row, None) when they are off again.
    """

    def __cinit__(self, *settings, **named):
        self.judgements = {}

    def verdict_supposing(self, int32_t row, list gone not None, list come not None, uint64_t asked,
                          object ports, int32_t pod_class, int32_t node_name=0, int32_t pinned=0, away=()):
        """The verdict of a node without some of its pods and with others; nothing of that stays.

        What PreFilter computed follows each pod's labels alone, as upstream: spread constraints with an empty
        selector, and terminating pods, count in neither case before, but when they come and go here.

        Parameters
        ----------
        gone, come : list of Pod
            Pods that are on the row, and pods that are not in the cache.
        asked : int
            The filters to ask, as bits by their place in the plan.
        ports : frozenset of (ip, protocol, port), optional
            The host ports in use then, where they are not what follows from the pods (see `PortSets`).
        away : sequence of (int, list of Pod)
            Other rows, and pods that are gone from them.
        """
        cdef uint64_t verdict
        self._prepare(pod_class, node_name, pinned)
        changes = [(row, gone, come)] if gone or come else []
        if self.terms is not None or self.plan.externals:  # nobody else looks at other rows
            changes += [(other, pods, []) for other, pods in away]
        if not changes:
            failed = self._ask(row, asked, &verdict)
        else:
            failed = self._judge(pod_class, row, changes, ports, asked, None, &verdict)
        if failed:
            self._raise_failure()
        return verdict

    cdef bint _judge(self, int32_t pod_class, int32_t row, list changes, object ports, uint64_t asked,
                     object judging, uint64_t* verdict) except -1:
        """The verdict of a row with some changes: (row, gone, come) each; true where a plugin fails."""
        cdef bint failed, told = False
        cdef dict watched = self.state.ledger.watched
        self.state.ledger.watched = None  # nobody is to hear of what is undone again
        self._count_unlisted(changes, 1)
        self.state.domains.count_unlisted(True)
        mark = self.state.begin()
        try:
            for other, gone, come in changes:
                for pod in gone:
                    self.state._take_away(self.state._known(pod))
                for pod in come:
                    self.state.put(pod, other)
            if ports is not None:
                self.state.table.set_ports(row, ports)
            if judging is not None:
                judging(row, changes[0][2])
            for other, gone, come in changes:
                self.tell(pod_class, gone, other, False)
                self.tell(pod_class, come, other, True)
            told = True
            self._repoint()
            failed = self._ask(row, asked, verdict)
        finally:
            if judging is not None:
                judging(row, None)
            self.state.rollback(mark)
            self.state.ledger.watched = watched
            self.state.domains.count_unlisted(False)
            self._count_unlisted(changes, -1)
            self.state.view.refresh()
            if told:
                for other, gone, come in reversed(changes):
                    self.tell(pod_class, reversed(come), other, False)
                    self.tell(pod_class, reversed(gone), other, True)
        self._repoint()
        return failed

    cdef int _count_unlisted(self, list changes, int32_t sign) except -1:
        if self.terms is not None:
            for row, gone, come in changes:
                self.terms.count_unlisted(gone, row, -sign)
                self.terms.count_unlisted(come, row, sign)
        return 0

    cdef bint _ask(self, int32_t row, uint64_t asked, uint64_t* verdict) noexcept:
        """The first rejection of some filters, as `verdicts` has it; true where a plugin fails."""
        cdef int32_t at, kernel
        cdef uint64_t reasons
        verdict[0] = 0
        for at in range(self.search.plan.n_filters):
            kernel = self.search.plan.filters[at]
            if not asked >> at & 1:
                continue
            if kernel >= MR_EXTERNAL:
                if mr_external_filter(&self.search, at, &row, 1, verdict):
                    return True
            else:
                reasons = mr_filter(kernel, self.search.plan, &self.cluster, self.search.shape,
                                    &self.search.pod, row)
                if reasons:
                    verdict[0] = <uint64_t>(at + 1) << MR_VERDICT_SHIFT | reasons
            if verdict[0]:
                return False
        return False

    def _repoint(self):
        """After a change of rows only: memory may have moved, and minima are other ones."""
        self.state.view.fill_cluster(&self.cluster, 0)
        self.views.show(&self.cluster)
        if self.terms is not None:
            self.state.domains.refresh()
            self.terms.fill()

    def tell(self, int32_t pod_class, pods, int32_t row, bint adds):
        """Tell plugins in C that the next questions, which are about a pod of this class, suppose `pods` on a
        row, or off it. Each call is to be taken back by the opposite one."""
        for pod in pods:
            if self.views.meet(pod_class, self.state.classes.intern(pod)):
                self.state.view.fill_cluster(&self.cluster, 0)
                self.views.show(&self.cluster)
                self.views.tell(row, adds)

    cdef bint _is_plain(self, list pods) except -1:
        """Whether some pods matter by cpu and memory alone to the pod in question."""
        cdef Shape shape
        if self.terms is not None or self.plan.externals:
            return False
        for pod in pods:
            shape = self.state.classes.shape(self.state.classes.intern(pod))
            if shape.c.n_ports or shape.c.n_others or shape.c.flags & MR_SHAPE_WIDE:
                return False
        return True

    cdef int _judge_plain(self, int32_t row, list pods, uint64_t* verdict) except -1:
        """`_judge` for such pods: adding up their requests, and taking them away again, is exact."""
        cdef Shape shape
        cdef list shapes = [self.state.classes.shape(self.state.classes.intern(pod)) for pod in pods]
        for shape in shapes:
            mr_row_add_pod(&self.cluster.ledger, row, &shape.c, 1)
        self._ask(row, ALL, verdict)
        for shape in shapes:
            mr_row_add_pod(&self.cluster.ledger, row, &shape.c, -1)
        return 0

    # ---- nominated pods ------------------------------------------------------------------------------------

    def nominate(self, nominations):
        """Pods that go before the next ones where they are nominated: (row, pods) per node. Filters run with
        them there, and again without (kube-scheduler v1.36, RunFilterPluginsWithNominatedPods). One that is
        in the cache by now counts where it is."""
        self.nominations.give(nominations)

    def follow_nominator(self, nominator, pod):
        """The same for all pods of a `PodNominator`: those of at least the priority of the pods that come
        next. The next question is about `pod`. Costs what has changed since the last time."""
        self.nominations.follow(nominator, pod)

    cdef int _judge_nominated(self, int32_t pod_class) except -1:
        cdef Judgements one = self._judgements_of(pod_class)
        cdef dict rows = self.nominations.rows
        cdef int32_t row
        cdef int64_t at, head = self.state.log.head, last = self.state.log.capacity - 1
        self.judged = one
        if self.terms is not None:
            self.terms.c.affinity_off = mr_inter_pod_skips(&self.terms.c)
        if self._can_follow_judgements(one):
            for row in self.nominations.changed[one.cursor:]:
                self._judge_row(row, pod_class)
            for at in range(one.log_cursor, head):
                row = self.state.log.id[at & last]
                if self.state.log.kind[at & last] < LOG_ORDER and row in rows:
                    self._judge_row(row, pod_class)
        else:
            one.verdicts.clear()
            for row in rows:
                self._judge_row(row, pod_class)
        if self.terms is not None:
            self.terms.c.affinity_off = False
        one.epoch, one.cursor, one.terms = self.nominations.epoch, len(self.nominations.changed), self.terms
        one.log_cursor = head
        return 0

    cdef Judgements _judgements_of(self, int32_t pod_class):
        """What is kept for pods like the one that the search is about."""
        key = pod_class, self.search.pod.node_name, self.search.pod.pinned_name
        one = self.judgements.pop(key, None)
        if one is None:
            one = Judgements()
            if len(self.judgements) >= JUDGED_CLASSES:
                del self.judgements[next(iter(self.judgements))]
        self.judgements[key] = one  # the last one is the one used last
        return one

    cdef bint _can_follow_judgements(self, Judgements one) except -1:
        """Whether only rows that were named since can have other verdicts. Terms count pods of other rows,
        and what plugins outside the core look at nobody knows."""
        if one.epoch != self.nominations.epoch or self.terms is not None or one.terms is not None \
                or self.plan.externals:
            return False
        return not self.state.log.lost(one.log_cursor)

    cdef int _judge_row(self, int32_t row, int32_t pod_class) except -1:
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef uint64_t verdict
        cdef list pods = [pod for pod, _ in self.nominations.before(row, shape.c.priority)]
        if not pods:
            self.judged.verdicts.pop(row, None)
            return 0
        if self._is_plain(pods):
            self._judge_plain(row, pods, &verdict)
        elif self._judge(pod_class, row, [(row, [], pods)], None, ALL, self.judging, &verdict):
            self._raise_failure()
        self.judged.verdicts[row] = verdict
        return 0
