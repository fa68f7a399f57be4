"""Counters over domains: how many pods match, per node and per value of a topology key.

A counter is made when a constraint or a term is first looked at, by one pass over the ledger. From then on
pods move it as they come and go, and nodes through the change log; no placement looks at pods again. All of
this is derived: a fork starts without counters, and an undo drops those made inside the transaction. Code
that keeps a counter compares `epoch` and asks again where it has changed.

kube-scheduler v1.36, podtopologyspread and interpodaffinity, count all pods in each PreFilter and PreScore.
"""

from functools import partial

import numpy as np

from libc.string cimport memset

from moorage._core.base cimport LOG_STATIC, ChangeLog
from moorage._core.csrc cimport *

cdef tuple EVERY_CLASS = (((),),)

cdef enum:
    MEMORY_LIMIT = 256 << 20  # bytes of counters; beyond it all are dropped, and made again when needed


cdef class TopologyKey:
    """The domain of each row for one label: 0 without label or node, 1 the empty value, then as seen."""

    def __cinit__(self, str label not None, int32_t column, int32_t empty, Buffer domain not None):
        self.label, self.column, self.domain = label, column, domain
        self.ids = {empty: MR_EMPTY_DOMAIN}


cdef class Eligibility:
    """Which nodes count: those with all of some labels, that a pod's node affinity and tolerations let in."""

    def __cinit__(self, tuple topologies not None, Shape shape, int32_t pinned,
                  tuple tolerations, Buffer counts not None):
        cdef TopologyKey topology
        cdef Py_ssize_t at
        self.n_columns = len(topologies)
        self.columns = Buffer(Journal(), sizeof(int32_t), self.n_columns + 1)
        for at, topology in enumerate(topologies):
            (<int32_t*>self.columns.data)[at] = topology.column
        self.shape, self.pinned, self.tolerations = shape, pinned, tolerations
        self.counts = counts


cdef class Counter:
    """Matching pods per domain; see `mr_counter` in csrc/state.h."""

    def __cinit__(self, Matched matched not None, TopologyKey topology not None,
                  Eligibility eligibility not None, bint absent):
        self.matched, self.topology, self.eligibility = matched, topology, eligibility
        self.c.absent = MR_EMPTY_DOMAIN if absent else 0


cdef class Matched:
    """The pods that match, per row. `matches` answers for a class, and those that it may name have one of
    `attributes`; without `all_pods`, terminating pods are left out."""

    def __cinit__(self, tuple key not None, matches, tuple attributes not None, bint all_pods,
                  Buffer pods not None, Buffer pointers not None):
        self.key, self.matches, self.attributes, self.all_pods = key, matches, attributes, all_pods
        self.pods, self.pointers = pods, pointers
        self.counters = []


cdef class Domains:
    """All counters of one cluster."""

    def __cinit__(self, View view not None, PodClasses classes not None, Ledger ledger not None,
                  Journal journal not None):
        self.view = view
        self.table = view.table
        self.classes = classes
        self.ledger = ledger
        self.journal = journal
        self.cursor = self.table.log.head
        self.topologies = {}
        self.eligibilities = {}
        self.matched = {}
        self.counters = {}
        self.classes_of, self.matched_of, self.by_class = {}, {}, []
        self.spare = {}
        self.moves, self.limit = -1, MEMORY_LIMIT

    # ---- following the cluster -----------------------------------------------------------------------------

    cdef int refresh(self) except -1:
        """Apply the changes of nodes since the last refresh, and refresh cached pointers."""
        cdef ChangeLog log = self.table.log
        cdef int32_t row
        self.view.fill_cluster(&self.cluster)
        self.point()
        if self.cursor == log.head:
            return 0
        if self.topologies or self.eligibilities:
            if self.journal.depth:
                self.journal.on_undo(partial(self._restore, self.cursor))
            rows = log.rows_since(self.cursor, LOG_STATIC, LOG_STATIC)
            for row in range(self.table.used) if rows is None else rows:
                _follow_row(self, row)
        self.cursor = log.head

    def _restore(self, int64_t cursor):
        self.cursor = cursor

    cdef int point(self) except -1:
        """Make room for all rows, and refresh cached pointers where memory has moved."""
        cdef Py_ssize_t rows = self.table.used
        cdef TopologyKey topology
        cdef Eligibility eligibility
        cdef Matched matched
        cdef Counter counter
        if self.undone != self.journal.undone:
            for counter in self.counters.values():
                counter.c.at_min = 0
            self.undone = self.journal.undone
        if self.moves == self.journal.moves and rows <= self.rows:
            return 0
        self.rows, self.nbytes = rows, 0
        for topology in self.topologies.values():
            topology.domain.reserve(rows)
        for eligibility in self.eligibilities.values():
            eligibility.counts.reserve(rows)
        for counter in self.counters.values():
            _point_counter(self, counter)
        for matched in self.matched.values():
            _point_matched(self, matched)
        self.moves = self.journal.moves

    cdef int pod_moved(self, int32_t pod_class, bint terminating, int32_t row, int32_t sign) except -1:
        """Count a pod that was added to a row (sign 1), or removed from it (sign -1)."""
        cdef Matched matched
        cdef Counter counter
        cdef int32_t domain
        if not self.matched:
            return 0
        for matched in self.matched_by(pod_class):
            if terminating and not matched.all_pods:
                continue
            self.point()
            if self.journal.depth:
                matched.pods.touch(row)
                for counter in matched.counters:
                    domain = mr_domain_of(&counter.c, row)
                    counter.pods.touch(domain)
                    counter.pods.touch(0)
            mr_matched_add(&matched.c, row, sign)

    cdef list matched_by(self, int32_t pod_class):
        """The matchers that match a class."""
        cdef Matched matched
        cdef int32_t each
        for each in range(<int32_t>len(self.by_class), pod_class + 1):
            found_by = self.attributes(each)
            asked = [matched for attribute in found_by for matched in self.matched_of.get(attribute, ())]
            self.by_class.append([matched for matched in asked if matched.matches(each)])
        return self.by_class[pod_class]

    cdef list attributes(self, int32_t pod_class):
        """What classes are found by: all by (), those of a namespace, those of it with a value of a label,
        and by its number those that carry a term."""
        cdef Shape shape = self.classes.shape(pod_class)
        cdef str namespace = shape.namespace, key, value
        cdef list out = [(), (namespace,)]
        for key, value in self.classes.labels(pod_class).items():
            out.append((namespace, key, value))
        return out + [(number,) for number in shape.carried]

    # ---- asking --------------------------------------------------------------------------------------------

    cdef TopologyKey topology(self, str label):
        """The domains of a label."""
        cdef TopologyKey out = self.topologies.get(label)
        cdef int32_t row, column
        if out is not None:
            return out
        column = self.classes.label_keys.intern(label) - 1
        self.refresh()
        out = TopologyKey(label, column, self.classes.symbols.intern(""), _buffer(self, self.table.used))
        for row in range(self.table.used):
            (<int32_t*>out.domain.data)[row] = _domain(self, out, row)
        self.topologies[label] = out
        self.moves = -1
        self.journal.on_undo(partial(self._drop_topology, out))
        return out

    cdef Eligibility eligibility(self, tuple labels, Shape shape, int32_t pinned, object tolerations):
        """The nodes that have these labels and let a pod in: by node affinity where a shape is given, by
        taints where tolerations are."""
        key = labels, None if shape is None else shape.node_affinity, pinned, tolerations
        cdef Eligibility out = self.eligibilities.get(key)
        cdef int32_t row
        if out is not None:
            return out
        topologies = tuple([self.topology(label) for label in labels])
        self.refresh()
        out = Eligibility(topologies, shape, pinned, tolerations, _buffer(self, self.table.used, 1))
        for row in range(self.table.used):
            (<unsigned char*>out.counts.data)[row] = _counts(self, out, row)
        self.eligibilities[key] = out
        self.moves = -1
        self.journal.on_undo(partial(self._drop_eligibility, key, out))
        return out

    cdef Matched matching(self, tuple matcher, bint all_pods):
        """The pods of the classes that a matcher names: its key, its answer for a class, and sets of
        attributes; a class that it names has one of each set. The set that the fewest classes have is looked
        through."""
        key, matches, found_by = matcher
        cdef Matched out = self.matched.get(key)
        cdef int32_t pod_class
        cdef unsigned char[::1] matching
        if out is not None:
            return out
        _find_classes(self)
        self.point()
        attributes = min(found_by, key=self._count_classes)
        pointers = Buffer(Journal(), sizeof(void*))
        out = Matched(key, matches, attributes, all_pods, _buffer(self, self.rows), pointers)
        matching = np.zeros(self.n_classes, dtype=np.uint8)
        for attribute in attributes:
            for pod_class in self.classes_of.get(attribute, ()):
                matching[pod_class] = out.matches(pod_class)
                if matching[pod_class] and pod_class < len(self.by_class):
                    self.by_class[pod_class].append(out)
            self.matched_of.setdefault(attribute, []).append(out)
        self.ledger.count(matching, all_pods, <int32_t*>out.pods.data)
        self.matched[out.key] = out
        _point_matched(self, out)
        self.moves = self.journal.moves
        self.journal.on_undo(partial(self._drop_matched, out))
        return out

    def _count_classes(self, attributes):
        return sum([len(self.classes_of.get(attribute, ())) for attribute in attributes])

    # ---- pod group cycles ----------------------------------------------------------------------------------

    def list_carriers(self):
        """From now on `carrying` counts pods only on rows that have such pods already.

        kube-scheduler v1.36, snapshot.go: AssumePod adds a pod to its node, but no node to the lists of nodes
        that have pods with affinity, or required anti-affinity: they are as when a pod group cycle began.
        """
        self.listed_any = _rows_with(self, "affinity", _declares_affinity)
        self.listed_anti = _rows_with(self, "anti-affinity", _has_anti_affinity)
        self.epoch += 1

    def unlist_carriers(self):
        """The pod group cycle is over: what `carrying` counted goes."""
        cdef Matched matched
        cdef Counter counter
        self.listed_any = self.listed_anti = None
        for key, counter in list(self.counters.items()):
            if counter.matched.listed is not None:
                self._drop_counter(key, counter)
        for matched in list(self.matched.values()):
            if matched.listed is not None:
                self._drop_matched(matched)
        self.epoch += 1

    cdef int count_unlisted(self, bint counts) noexcept:
        """Whether pods that come to other rows, and leave them, count meanwhile: nominated ones do."""
        cdef Matched matched
        for matched in self.matched.values():
            if matched.listed is not None:
                matched.c.listed = NULL
                if not counts:
                    matched.c.listed = <const unsigned char*>matched.listed.data
        return 0

    cdef Matched carrying(self, tuple matcher, bint is_anti):
        """The pods that have a term themselves, in a pod group cycle: where upstream looks for them."""
        cdef Matched out = self.matched.get((*matcher[0], "listed"))
        cdef int32_t row
        if out is not None:
            return out
        out = self.matching(((*matcher[0], "listed"), *matcher[1:]), True)
        out.listed = self.listed_anti if is_anti else self.listed_any
        out.c.listed = <const unsigned char*>out.listed.data
        for row in range(self.table.used):
            if not out.listed.data[row]:
                (<int32_t*>out.pods.data)[row] = 0
        return out

    # ---- counters ------------------------------------------------------------------------------------------

    cdef Counter counter(self, Matched matched, TopologyKey topology, Eligibility eligibility, bint absent):
        """The counter of matching pods over the domains of a label; with `absent`, nodes without the label
        count as those with an empty value."""
        key = matched, topology, eligibility, absent
        cdef Counter out = self.counters.get(key)
        cdef int32_t row
        if out is not None:
            return out
        self.refresh()
        out = Counter(matched, topology, eligibility, absent)
        out.pods = _buffer(self, len(topology.ids) + 1)
        out.nodes = _buffer(self, len(topology.ids) + 1)
        matched.counters.append(out)
        self.counters[key] = out
        _point_counter(self, out)
        self.nbytes -= matched.pods.capacity * sizeof(int32_t)  # which is counted already
        _point_matched(self, matched)
        self.moves = self.journal.moves
        for row in range(self.table.used):
            mr_counter_add(&out.c, row, (<int32_t*>matched.pods.data)[row], 1)
        self.journal.on_undo(partial(self._drop_counter, key, out))
        return out

    # ---- memory --------------------------------------------------------------------------------------------

    def _put_away(self, *buffers):
        cdef Buffer buffer
        for buffer in buffers:
            self.spare[buffer.itemsize].append(buffer)
        self.moves = -1
        self.epoch += 1

    # What was made inside a transaction that is undone may rest on what it undoes.

    def _drop_topology(self, TopologyKey topology):
        del self.topologies[topology.label]
        self._put_away(topology.domain)

    def _drop_eligibility(self, key, Eligibility eligibility):
        del self.eligibilities[key]
        self._put_away(eligibility.counts)

    def _drop_counter(self, key, Counter counter):
        if self.counters.pop(key, None) is None:
            return
        counter.matched.counters.remove(counter)
        self._put_away(counter.pods, counter.nodes)

    def _drop_matched(self, Matched matched):
        if self.matched.pop(matched.key, None) is None:
            return
        for listed in self.by_class:
            if matched in listed:
                listed.remove(matched)
        for attribute in matched.attributes:
            self.matched_of[attribute].remove(matched)
        self._put_away(matched.pods)

    def enforce_limit(self):
        """Drop everything where it has grown beyond `limit` bytes; not inside a transaction."""
        cdef Counter counter
        cdef Matched matched
        if self.journal.depth or self.nbytes <= self.limit:
            return
        held = [matched.pods for matched in self.matched.values()]
        for counter in self.counters.values():
            held += [counter.pods, counter.nodes]
        self.nbytes = 0
        self.matched.clear()
        self.matched_of.clear()
        self.counters.clear()
        self.by_class.clear()
        self._put_away(*held)


cdef int _follow_row(Domains domains, int32_t row) except -1:
    """Apply a change of a node, which may count in other domains now."""
    cdef TopologyKey topology
    cdef Eligibility eligibility
    cdef Counter counter
    cdef int32_t domain
    cdef bint counts
    cdef list moved = [], switched = []
    if row >= domains.table.used:  # made and undone since
        return 0
    for topology in domains.topologies.values():
        domain = _domain(domains, topology, row)
        if domain != (<int32_t*>topology.domain.data)[row]:
            moved.append((topology, domain))
    for eligibility in domains.eligibilities.values():
        counts = _counts(domains, eligibility, row)
        if counts != (<unsigned char*>eligibility.counts.data)[row]:
            switched.append((eligibility, counts))
    if not moved and not switched:
        return 0
    domains.point()
    for counter in domains.counters.values():
        _shift(domains, counter, row, -1)
    for topology, domain in moved:
        topology.domain.touch(row)
        (<int32_t*>topology.domain.data)[row] = domain
    for eligibility, counts in switched:
        eligibility.counts.touch(row)
        (<unsigned char*>eligibility.counts.data)[row] = counts
    for counter in domains.counters.values():
        _shift(domains, counter, row, 1)


# ---- following the cluster


cdef int _point_counter(Domains domains, Counter counter) except -1:
    counter.c.domains = <int32_t>len(counter.topology.ids) + 1
    counter.pods.reserve(counter.c.domains)
    counter.nodes.reserve(counter.c.domains)
    counter.c.pods = <int32_t*>counter.pods.data
    counter.c.nodes = <int32_t*>counter.nodes.data
    counter.c.domain = <int32_t*>counter.topology.domain.data
    counter.c.counts = <unsigned char*>counter.eligibility.counts.data
    domains.nbytes += (counter.pods.capacity + counter.nodes.capacity) * sizeof(int32_t)


cdef int _point_matched(Domains domains, Matched matched) except -1:
    cdef Counter counter
    cdef Py_ssize_t at
    matched.pods.reserve(domains.rows)
    matched.pointers.reserve(len(matched.counters))
    for at, counter in enumerate(matched.counters):
        (<mr_counter**>matched.pointers.data)[at] = &counter.c
    matched.c.pods = <int32_t*>matched.pods.data
    matched.c.counters = <mr_counter**>matched.pointers.data
    matched.c.n = <int32_t>len(matched.counters)
    domains.nbytes += matched.pods.capacity * sizeof(int32_t)


cdef int _find_classes(Domains domains) except -1:
    """Have all classes that there are listed by their attributes."""
    cdef Py_ssize_t classes = len(domains.classes.keys)
    for pod_class in range(domains.n_classes, classes):
        for attribute in domains.attributes(pod_class):
            domains.classes_of.setdefault(attribute, []).append(pod_class)
    domains.n_classes = classes


cdef int _shift(Domains domains, Counter counter, int32_t row, int32_t sign) except -1:
    """Add a row with its pods to its domain (sign 1), or take it out (sign -1)."""
    cdef int32_t domain
    if domains.journal.depth:
        domain = mr_domain_of(&counter.c, row)
        counter.pods.touch(domain)
        counter.pods.touch(0)
        counter.nodes.touch(domain)
    mr_counter_add(&counter.c, row, sign * (<int32_t*>counter.matched.pods.data)[row], sign)


cdef int32_t _domain(Domains domains, TopologyKey topology, int32_t row) except -1:
    """The domain of a row as its node is now, made if its value is new."""
    cdef int32_t value
    if not domains.table.row(0, row).flags & MR_PRESENT:
        return 0
    value = domains.cluster.labels[topology.column][row]
    if value == 0:
        return 0
    if topology.last_value == value:  # a dictionary less to ask, for labels with few values
        return topology.last
    found = topology.ids.get(value)
    if found is None:
        found = topology.ids[value] = len(topology.ids) + 1
        domains.moves = -1
    topology.last_value, topology.last = value, found
    return found


cdef bint _counts(Domains domains, Eligibility eligibility, int32_t row) except -1:
    """Whether a row counts as its node is now."""
    cdef mr_pod pod
    cdef Py_ssize_t at
    cdef int32_t* columns = <int32_t*>eligibility.columns.data
    if not domains.table.row(0, row).flags & MR_PRESENT:
        return False
    for at in range(eligibility.n_columns):
        if domains.cluster.labels[columns[at]][row] == 0:
            return False
    if eligibility.tolerations is not None:
        verdicts = domains.table.taint_sets.verdicts_of(eligibility.tolerations)
        if (<const short*>(<Buffer>verdicts).data)[domains.cluster.taint_set[row]] < 0:
            return False
    if eligibility.shape is None:
        return True
    memset(&pod, 0, sizeof(mr_pod))
    pod.pinned_name = eligibility.pinned
    return mr_node_affinity_matches(&domains.cluster, &eligibility.shape.c, &pod, row) != 0


# ---- pod group cycles


cdef Buffer _rows_with(Domains domains, str name, object has):
    """Per row of the table, whether it has a pod of such a class."""
    cdef Matched matched = domains.matching(((name,), partial(has, domains.classes), EVERY_CLASS), True)
    cdef Buffer out = Buffer(Journal(), 1, domains.table.name.capacity)
    cdef int32_t row
    domains.point()
    for row in range(domains.table.used):
        out.data[row] = (<int32_t*>matched.pods.data)[row] > 0
    return out


# ---- memory


cdef Buffer _buffer(Domains domains, Py_ssize_t items, Py_ssize_t itemsize=sizeof(int32_t)):
    """A zeroed buffer, an old one where there is one: a journal keeps every buffer it ever had."""
    cdef list spare = domains.spare.setdefault(itemsize, [])
    cdef Buffer out
    if not spare:
        return Buffer(domains.journal, itemsize, max(items, 1))
    out = spare.pop()
    memset(out.data, 0, out.capacity * out.itemsize)
    out.reserve(items)
    return out


def _declares_affinity(PodClasses classes, int32_t pod_class):
    return classes.shape(pod_class).declares_affinity


def _has_anti_affinity(PodClasses classes, int32_t pod_class):
    return bool(classes.shape(pod_class).terms[1])
