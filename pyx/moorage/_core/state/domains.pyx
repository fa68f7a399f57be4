"""Counters of matching pods, per node and per topology domain (value of a topology key).

A counter is created, from the pods in the ledger, when a topology spread constraint or an inter-pod affinity
term is first evaluated. After that each added or removed pod updates it, and changes of nodes reach it
through the change log, so that a placement need not iterate over pods. kube-scheduler v1.36
(podtopologyspread, interpodaffinity) instead counts all pods in each PreFilter and PreScore.

All of this is derived state: a fork starts without counters, and a rollback drops the counters created in the
transaction. Code that keeps a counter compares `epoch`, and looks the counter up again if it has changed.
"""

from functools import partial

from libc.string cimport memcpy, memset

from moorage._core.base cimport HEADER, LOG_STATIC, ChangeLog
from moorage._core.csrc cimport *


cdef enum:
    MEMORY_LIMIT = 256 << 20  # bytes; beyond it all counters are dropped, and created again when needed


cdef class TopologyKey:
    """The domain of each row for one topology key.

    Domain 0 means that the row has no node or its node lacks the label; domain 1 is the empty value; other
    values are numbered in the order of their first use.
    """

    def __cinit__(self, str label not None, int32_t column, int32_t empty, Buffer domain not None):
        self.label, self.column, self.domain = label, column, domain
        self.ids = {empty: MR_EMPTY_DOMAIN}


cdef class Eligibility:
    """Which nodes count: those that have some labels and match the node affinity and tolerations of a pod."""

    def __cinit__(self, tuple topologies not None, Shape shape, int32_t pinned,
                  tuple tolerations, Buffer counts not None):
        cdef TopologyKey topology
        cdef Py_ssize_t at
        self.n_columns = len(topologies)
        self.columns = Buffer(Journal(), sizeof(int32_t), self.n_columns + 1)
        for at, topology in enumerate(topologies):
            self.columns.int32()[at] = topology.column
        self.shape, self.pinned, self.tolerations = shape, pinned, tolerations
        self.counts = counts


cdef class Counter:
    """The number of matching pods per domain, over the eligible nodes; see `mr_counter` in csrc/state.h."""

    def __cinit__(self, Matched matched not None, TopologyKey topology not None,
                  Eligibility eligibility not None, bint absent):
        self.matched, self.topology, self.eligibility = matched, topology, eligibility
        self.c.absent = MR_EMPTY_DOMAIN if absent else 0


cdef class Matched:
    """The number of pods per row whose class satisfies the predicate `matches`.

    Each matching class has one of `attributes`. Without `all_pods`, terminating pods do not count.
    """

    def __cinit__(self, tuple key not None, matches, tuple attributes not None, bint all_pods,
                  Buffer pods not None, Buffer pointers not None):
        self.key, self.matches, self.attributes, self.all_pods = key, matches, attributes, all_pods
        self.pods, self.pointers = pods, pointers
        self.counters = []


cdef class Domains:
    """All counters of one cluster.

    Parameters
    ----------
    view : View
    classes : PodClasses
    ledger : Ledger
    journal : Journal

    Attributes
    ----------
    limit : int
        Bytes of memory beyond which `enforce_limit` drops all counters; 256 MiB by default.
    """

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
        self.counters, self.latest = {}, {}
        self.classes_of, self.matched_of, self.by_class = {}, {}, []
        self.spare = {}
        self.limit = MEMORY_LIMIT

    # ---- following the cluster -----------------------------------------------------------------------------

    cdef int refresh(self) except -1:
        """Apply the changes of nodes since the last refresh, and refresh the cached pointers."""
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
        """Undo the advance of the cursor."""
        if not 0 <= cursor <= self.cursor:
            raise ValueError(f"the cursor was never at {cursor}")
        self.cursor = cursor

    cdef int point(self) except -1:
        """Make room for all rows, and refresh the cached pointers if memory of the counters has moved."""
        cdef Py_ssize_t rows = self.table.used
        cdef TopologyKey topology
        cdef Eligibility eligibility
        cdef Matched matched
        cdef Counter counter
        if self.undone != self.journal.undone:
            for counter in self.counters.values():
                counter.c.at_min = 0
            self.undone = self.journal.undone
        if self.is_pointed and rows <= self.rows:
            return 0
        self.rows, self.nbytes, self.is_pointed = max(rows, self.rows), 0, False
        for topology in self.topologies.values():
            topology.domain.reserve(self.rows)
        for eligibility in self.eligibilities.values():
            eligibility.counts.reserve(self.rows)
        for counter in self.counters.values():
            _point_counter(self, counter)
        for matched in self.matched.values():
            _point_matched(self, matched)
        self.is_pointed = True

    cdef int make_room(self, int32_t pod_class) except -1:
        """Allocate what `pod_moved` needs outside of a transaction for a pod of a class."""
        if self.matched:
            self.matched_by(pod_class)
            self.point()

    cdef int pod_moved(self, int32_t pod_class, bint terminating, int32_t row, int32_t sign) except -1:
        """Update the counters for a pod added to a row (sign 1) or removed from it (sign -1)."""
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
        """Return the `Matched` objects whose predicate a class satisfies."""
        cdef Matched matched
        cdef int32_t number
        for number in range(<int32_t>len(self.by_class), pod_class + 1):
            keys = self.attributes(number)
            candidates = [matched for attribute in keys for matched in self.matched_of.get(attribute, ())]
            self.by_class.append([matched for matched in candidates if matched.matches(number)])
        return self.by_class[pod_class]

    cdef list attributes(self, int32_t pod_class):
        """Return the index keys of a class: (), (namespace,), (namespace, label key, value), (term,)."""
        cdef Shape shape = self.classes.shape(pod_class)
        cdef str namespace = shape.namespace, key, value
        cdef list out = [(), (namespace,)]
        for key, value in self.classes.labels(pod_class).items():
            out.append((namespace, key, value))
        return out + [(number,) for number in shape.carried]

    # ---- parts of counters ---------------------------------------------------------------------------------

    cdef TopologyKey topology(self, str label):
        """Return the domains of the rows for a topology key."""
        cdef TopologyKey out = self.topologies.get(label)
        cdef int32_t row, column
        if out is not None:
            return out
        column = self.classes.label_keys.intern(label) - 1
        self.refresh()
        out = TopologyKey(label, column, self.classes.symbols.intern(""), _buffer(self, self.rows))
        is_pointed = self.is_pointed  # new domains are of no counter yet
        for row in range(self.table.used):
            out.domain.int32()[row] = _domain(self, out, row)
        self.journal.on_undo(partial(self._drop_topology, out))
        self.topologies[label] = out
        self.is_pointed = is_pointed
        return out

    cdef Eligibility eligibility(self, tuple labels, Shape shape, int32_t pinned, object tolerations):
        """Return the nodes that have some labels, match the node affinity of a shape (None: any) with its
        pinned node name, and whose taints are tolerated (None: any).
        """
        key = labels, None if shape is None else shape.node_affinity, pinned, tolerations
        cdef Eligibility out = self.eligibilities.get(key)
        cdef int32_t row
        if out is not None:
            return out
        topologies = tuple([self.topology(label) for label in labels])
        self.refresh()
        out = Eligibility(topologies, shape, pinned, tolerations, _buffer(self, self.rows, 1))
        for row in range(self.table.used):
            out.counts.uint8()[row] = _counts(self, out, row)
        self.journal.on_undo(partial(self._drop_eligibility, key, out))
        self.eligibilities[key] = out
        return out

    cdef Matched matching(self, tuple matcher, bint all_pods):
        """Return the pods that satisfy a matcher: (key, predicate of a class, sets of attributes).

        A class that satisfies the predicate has an attribute of each set. The set with the fewest classes is
        searched.
        """
        key, matches, attribute_sets = matcher
        cdef Matched out = self.matched.get(key)
        cdef int32_t pod_class
        if out is not None:
            return out
        _find_classes(self)
        self.point()
        attributes = min(attribute_sets, key=self._count_classes)
        pointers = Buffer(Journal(), sizeof(void*))
        out = Matched(key, matches, attributes, all_pods, _buffer(self, self.rows), pointers)
        possible = [self.classes_of.get(attribute, ()) for attribute in attributes]
        found = {each for classes in possible for each in classes if matches(each)}
        if found:  # else no pod counts, and the ledger need not be read
            self.ledger.count(found, all_pods, out.pods.int32())
        _point_matched(self, out)
        self.journal.on_undo(partial(self._drop_matched, out))
        try:
            self.matched[out.key] = out
            for attribute in attributes:
                self.matched_of.setdefault(attribute, []).append(out)
            for pod_class in found:
                if pod_class < <int32_t>len(self.by_class):
                    self.by_class[pod_class].append(out)
        except BaseException:
            self._drop_matched(out)
            raise
        return out

    def _count_classes(self, attributes):
        """Return the number of classes that a set of attributes leads to."""
        return sum([len(self.classes_of.get(attribute, ())) for attribute in attributes])

    # ---- counters ------------------------------------------------------------------------------------------

    cdef Counter counter(self, Matched matched, TopologyKey topology, Eligibility eligibility, bint absent):
        """Return the counter of matching pods over the domains of a topology key.

        With `absent`, nodes without the label count as nodes with an empty value.
        """
        key = matched, topology, eligibility, absent
        cdef Counter out = self.counters.get(key)
        if out is not None:
            return out
        self.refresh()
        out = Counter(matched, topology, eligibility, absent)
        out.pods = _buffer(self, len(topology.ids) + 1)
        out.nodes = _buffer(self, len(topology.ids) + 1)
        self.journal.on_undo(partial(self._drop_counter, key, out))
        try:
            self.counters[key] = out
            matched.counters.append(out)
            _point_counter(self, out)
            self.nbytes -= matched.pods.capacity * sizeof(int32_t)  # _point_matched adds it again
            _point_matched(self, matched)
        except BaseException:
            self._drop_counter(key, out)
            raise
        _fill_counter(self, out, self.latest.get(key[1:]))
        self.latest[key[1:]] = out
        return out

    # ---- memory --------------------------------------------------------------------------------------------

    def _put_away(self, *buffers):
        """Keep buffers of dropped counters for reuse."""
        cdef Buffer buffer
        for buffer in buffers:
            self.spare[buffer.itemsize].append(buffer)
        self.is_pointed = False
        self.epoch += 1

    # A rollback drops what was created in the transaction, since it can depend on undone changes. What has
    # been dropped already, or was never entered as memory ran out, is not there.

    def _drop_topology(self, TopologyKey topology not None):
        """Drop a topology key."""
        if self.topologies.get(topology.label) is topology:
            del self.topologies[topology.label]
            topology.ids.clear()  # which terms of the transaction still hold, one number per host
            self._put_away(topology.domain)

    def _drop_eligibility(self, key, Eligibility eligibility not None):
        """Drop a set of eligible nodes."""
        if self.eligibilities.get(key) is eligibility:
            del self.eligibilities[key]
            self._put_away(eligibility.counts)

    def _drop_counter(self, key, Counter counter not None):
        """Drop a counter."""
        if self.counters.get(key) is counter:
            del self.counters[key]
            if self.latest.get(key[1:]) is counter:
                del self.latest[key[1:]]
            if counter in counter.matched.counters:
                counter.matched.counters.remove(counter)
            self._put_away(counter.pods, counter.nodes)

    def _drop_matched(self, Matched matched not None):
        """Drop the counts of matching pods per row."""
        if self.matched.get(matched.key) is not matched:
            return
        del self.matched[matched.key]
        for listed in self.by_class:
            if matched in listed:
                listed.remove(matched)
        for attribute in matched.attributes:
            listed = self.matched_of.get(attribute, ())
            if matched in listed:
                listed.remove(matched)
        self._put_away(matched.pods)

    cdef bint exceeds_limit(self) noexcept:
        """Whether `enforce_limit` would drop all counters now."""
        return not self.journal.depth and self.nbytes > self.limit

    def enforce_limit(self):
        """Drop all counters if they take more than `limit` bytes; does nothing inside a transaction."""
        if self.exceeds_limit():
            self.clear()

    cdef int clear(self) except -1:
        """Drop all counters and what is known of classes; outside of a transaction."""
        cdef Counter counter
        cdef Matched matched
        cdef Eligibility eligibility
        held = [matched.pods for matched in self.matched.values()]
        for counter in self.counters.values():
            held += [counter.pods, counter.nodes]
        held += [eligibility.counts for eligibility in self.eligibilities.values()]
        self.nbytes = 0
        for table in (self.matched, self.matched_of, self.counters, self.latest, self.eligibilities):
            table.clear()
        self.by_class.clear()
        self.classes_of.clear()
        self.n_classes = 0
        self._put_away(*held)
        return 0


cdef int _follow_row(Domains domains, int32_t row) except -1:
    """Apply a logged change of a node, whose domains and eligibility can have changed."""
    cdef TopologyKey topology
    cdef Eligibility eligibility
    cdef Counter counter
    cdef int32_t domain
    cdef bint counts
    cdef list moved = [], switched = []
    if row >= domains.table.used:  # the row was added in a transaction that has been rolled back
        return 0
    for topology in domains.topologies.values():
        domain = _domain(domains, topology, row)
        if domain != topology.domain.int32()[row]:
            moved.append((topology, domain))
    for eligibility in domains.eligibilities.values():
        counts = _counts(domains, eligibility, row)
        if counts != eligibility.counts.uint8()[row]:
            switched.append((eligibility, counts))
    if not moved and not switched:
        return 0
    domains.point()
    if domains.journal.depth:  # so that memory does not run out between the two shifts
        items = 6 * len(domains.counters) + len(moved) + len(switched)
        domains.journal.reserve(items * <Py_ssize_t>(HEADER + sizeof(int32_t)))
    for counter in domains.counters.values():
        _shift(domains, counter, row, -1)
    for topology, domain in moved:
        topology.domain.touch(row)
        topology.domain.int32()[row] = domain
    for eligibility, counts in switched:
        eligibility.counts.touch(row)
        eligibility.counts.uint8()[row] = counts
    for counter in domains.counters.values():
        _shift(domains, counter, row, 1)


# ---- following the cluster


cdef int _point_counter(Domains domains, Counter counter) except -1:
    """Make room in a counter, refresh its pointers and add its memory to `nbytes`."""
    counter.c.domains = <int32_t>len(counter.topology.ids) + 1
    counter.pods.reserve(counter.c.domains)
    counter.nodes.reserve(counter.c.domains)
    counter.c.pods = counter.pods.int32()
    counter.c.nodes = counter.nodes.int32()
    counter.c.domain = counter.topology.domain.int32()
    counter.c.counts = counter.eligibility.counts.uint8()
    domains.nbytes += (counter.pods.capacity + counter.nodes.capacity) * sizeof(int32_t)


cdef int _point_matched(Domains domains, Matched matched) except -1:
    """Make room in the counts per row, refresh their pointers and add their memory to `nbytes`."""
    cdef Counter counter
    cdef Py_ssize_t at
    matched.pods.reserve(domains.rows)
    matched.pointers.reserve(len(matched.counters))
    for at, counter in enumerate(matched.counters):
        (<mr_counter**>matched.pointers.data)[at] = &counter.c
    matched.c.pods = matched.pods.int32()
    matched.c.counters = <mr_counter**>matched.pointers.data
    matched.c.n = <int32_t>len(matched.counters)
    domains.nbytes += matched.pods.capacity * sizeof(int32_t)


cdef int _find_classes(Domains domains) except -1:
    """Add new classes to the index by attribute."""
    cdef Py_ssize_t classes = len(domains.classes.keys)
    for pod_class in range(domains.n_classes, classes):
        for attribute in domains.attributes(pod_class):
            domains.classes_of.setdefault(attribute, []).append(pod_class)
    domains.n_classes = classes


cdef int _fill_counter(Domains domains, Counter out, Counter like) except -1:
    """Count the pods and nodes of each domain; the nodes are those of a counter that is like it but for the
    pods, where there is one."""
    cdef const int32_t* pods = out.matched.pods.int32()
    cdef int32_t row, nodes = like is None
    if like is not None:
        memcpy(out.c.nodes, like.c.nodes, like.c.domains * sizeof(int32_t))
    for row in range(domains.table.used):
        if nodes or pods[row]:
            mr_counter_add(&out.c, row, pods[row], nodes)


cdef int _shift(Domains domains, Counter counter, int32_t row, int32_t sign) except -1:
    """Add a row with its pods to its domain (sign 1), or subtract it (sign -1)."""
    cdef int32_t domain
    if domains.journal.depth:
        domain = mr_domain_of(&counter.c, row)
        counter.pods.touch(domain)
        counter.pods.touch(0)
        counter.nodes.touch(domain)
    mr_counter_add(&counter.c, row, sign * counter.matched.pods.int32()[row], sign)


cdef int32_t _domain(Domains domains, TopologyKey topology, int32_t row) except -1:
    """Return the domain of a row by the current labels of its node, adding a domain for a new value."""
    cdef int32_t value
    if not domains.table.row(0, row).flags & MR_PRESENT:
        return 0
    value = domains.cluster.labels[topology.column][row]
    if value == 0:
        return 0
    if topology.last_value == value:  # saves the dictionary lookup for labels with few values
        return topology.last
    domain = topology.ids.get(value)
    if domain is None:
        domain = topology.ids[value] = len(topology.ids) + 1
        domains.is_pointed = False
    topology.last_value, topology.last = value, domain
    return domain


cdef bint _counts(Domains domains, Eligibility eligibility, int32_t row) except -1:
    """Whether a row is eligible by the current state of its node."""
    cdef mr_pod pod
    cdef Py_ssize_t at
    cdef int32_t* columns = eligibility.columns.int32()
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


# ---- memory


cdef Buffer _buffer(Domains domains, Py_ssize_t items, Py_ssize_t itemsize=sizeof(int32_t)):
    """Return a zeroed buffer, reusing that of a dropped counter: a journal never releases its buffers."""
    cdef list spare = domains.spare.setdefault(itemsize, [])
    cdef Buffer out
    if not spare:
        return Buffer(domains.journal, itemsize, max(items, 1))
    out = spare.pop()
    memset(out.data, 0, out.capacity * out.itemsize)
    out.reserve(items)
    return out
