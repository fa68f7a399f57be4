"""Random operations on a cluster state, and all that is derived recomputed at random moments.

The model is a few C arrays: where each pod is, which of its variants it is, which nodes there are. A check
derives the rows of the node table, the lists of the ledger, the tree, the view and the counters from it,
without the code that keeps them. Transactions nest to a depth of three; a rollback takes the model back as
well.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from moorage._core.csrc cimport MR_FIELDS, MR_PRESENT, mr_ledger, mr_row
from moorage._core.state.cluster_state cimport ClusterState
from moorage._core.state.domains cimport Counter, Matched
from moorage._core.state.ledger cimport ADDED, ASSUMED, Ledger, PodRecord, RowRecord
from moorage._core.state.pod_class cimport Shape
from moorage._core.state.zone_tree cimport NodeTree

from moorage.errors import CacheError

cdef extern from "state.h":
    const uint32_t WIDE "MR_WIDE"

cdef enum:
    PODS = 64
    NODES = 8
    VARIANTS = 6
    ZONES = 3
    DEPTH = 3

cdef enum:
    ABSENT = 0
    NO_NODE = -1

cdef struct Model:
    int32_t state[PODS]
    int32_t node[PODS]
    int32_t variant[PODS]
    int32_t kind[NODES]  # which of the states of a node it has, NO_NODE if there is none

cdef class Driver:
    """Drives one cluster state.

    Parameters
    ----------
    state : ClusterState
        Empty.
    pods : list
        The objects of pods by (number * NODES + node) * VARIANTS + variant.
    nodes : list
        The states of nodes by node * ZONES + zone.
    names : list of str
        The names of the nodes.
    compare : callable
        Gets a class, a number of pods and whether to look in a fork as well; raises where placements differ.
    seed : int

    Attributes
    ----------
    operations, checks, rollbacks, refusals, decisions : int
        How many there were.
    """

    cdef ClusterState state
    cdef list pods, nodes, marks, names
    cdef object compare
    cdef Model now
    cdef Model before[DEPTH]
    cdef int32_t depth
    cdef uint64_t random
    cdef int32_t classes[VARIANTS]
    cdef readonly int64_t operations, checks, rollbacks, refusals, decisions

    def __cinit__(self, ClusterState state not None, list pods not None, list nodes not None,
                  list names not None, compare, uint64_t seed):
        cdef int32_t at
        self.state, self.pods, self.nodes, self.names = state, pods, nodes, names
        self.compare = compare
        self.marks = []
        self.random = seed
        memset(&self.now, 0, sizeof(Model))
        for at in range(NODES):
            self.now.kind[at] = NO_NODE
        for at in range(VARIANTS):
            self.classes[at] = state.classes.intern(pods[at])

    cdef uint64_t draw(self, uint64_t below) noexcept:
        """Return a random number below another one (splitmix64)."""
        self.random += <uint64_t>0x9E3779B97F4A7C15
        cdef uint64_t z = self.random
        z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
        return (z ^ (z >> 31)) % below

    cdef object pod(self, int32_t number, int32_t node, int32_t variant):
        return self.pods[(number * NODES + node) * VARIANTS + variant]

    def run(self, int64_t operations):
        """Carry out a number of operations.

        Parameters
        ----------
        operations : int
        """
        cdef int64_t end = self.operations + operations
        while self.operations < end:
            self.step()
            self.operations += 1

    cdef int step(self) except -1:
        cdef uint64_t what = self.draw(1024)
        if what < 960:
            return self.pod_operation()
        if what < 972:
            return self.node_operation()
        if what < 992:
            return self.transaction()
        if what < 994:
            return self.decide()
        if what < 1006:
            self.state.view.refresh()
            return self.check_view()
        if what < 1014:
            return self.refused()
        if what < 1020:
            return self.expire()
        return self.check()

    # ---- operations ----------------------------------------------------------------------------------------

    cdef int pod_operation(self) except -1:
        cdef int32_t number = <int32_t>self.draw(PODS), node, variant
        cdef Model* now = &self.now
        cdef bint flips
        if now.state[number] == ABSENT:
            node, variant = <int32_t>self.draw(NODES), <int32_t>self.draw(VARIANTS)
            flips = self.draw(2)
            now.node[number], now.variant[number] = node, variant
            if flips:
                self.state.assume_pod(self.pod(number, node, variant))
                now.state[number] = ASSUMED
            else:
                self.state.add_pod(self.pod(number, node, variant))
                now.state[number] = ADDED
            return 0
        held = self.pod(number, now.node[number], now.variant[number])
        if now.state[number] == ASSUMED:
            if self.draw(2):
                self.state.forget_pod(held)
                now.state[number] = ABSENT
                return 0
            if self.draw(4) == 0:
                now.node[number] = <int32_t>self.draw(NODES)
                now.variant[number] = <int32_t>self.draw(VARIANTS)
            self.state.add_pod(self.pod(number, now.node[number], now.variant[number]))
            now.state[number] = ADDED
            return 0
        if self.draw(2):
            self.state.remove_pod(held)
            now.state[number] = ABSENT
            return 0
        variant = <int32_t>self.draw(VARIANTS)
        self.state.update_pod(held, self.pod(number, now.node[number], variant))
        now.variant[number] = variant
        return 0

    cdef int node_operation(self) except -1:
        cdef int32_t node = <int32_t>self.draw(NODES), kind = <int32_t>self.draw(ZONES)
        if self.now.kind[node] != NO_NODE and self.draw(3) == 0:
            self.state.remove_node(self.names[node])
            self.now.kind[node] = NO_NODE
        else:
            self.state.set_node(self.nodes[node * ZONES + kind])
            self.now.kind[node] = kind
        return 0

    cdef int transaction(self) except -1:
        if self.depth < DEPTH and (self.depth == 0 or self.draw(2)):
            self.marks.append(self.state.begin())
            self.before[self.depth] = self.now
            self.depth += 1
            return 0
        self.depth -= 1
        if self.draw(2):
            self.state.commit(self.marks.pop())
            return 0
        self.state.rollback(self.marks.pop())
        self.now = self.before[self.depth]
        self.rollbacks += 1
        return self.check() if self.draw(4) == 0 else 0

    cdef int decide(self) except -1:
        """Placements from candidates, by scans and by a fork's counters from scratch are the same; undone."""
        cdef int32_t variant = <int32_t>self.draw(VARIANTS), pods = 1 + <int32_t>self.draw(12)
        self.compare(self.classes[variant], pods, self.depth == 0 and self.draw(8) == 0)
        self.decisions += pods
        return 0

    cdef int refused(self) except -1:
        """What does not fit the state raises, and changes nothing."""
        cdef int32_t number = <int32_t>self.draw(PODS)
        cdef Model* now = &self.now
        held = self.pod(number, now.node[number], now.variant[number])
        try:
            if now.state[number] == ABSENT:
                self.state.remove_pod(held)
            elif now.state[number] == ASSUMED:
                self.state.remove_pod(held)
            elif self.draw(2):
                self.state.assume_pod(held)
            else:
                self.state.add_pod(held)
        except CacheError:
            self.refusals += 1
            return 0
        raise AssertionError(f"pod {number} was not refused")

    cdef int expire(self) except -1:
        """One assumed pod reaches its deadline."""
        cdef int32_t number = <int32_t>self.draw(PODS)
        if self.now.state[number] != ASSUMED:
            return 0
        held = self.pod(number, self.now.node[number], self.now.variant[number])
        self.state.finish_binding(held, <double>self.operations)
        if len(self.state.expire(<double>self.operations + 1)) != 1:
            raise AssertionError(f"pod {number} did not expire")
        self.now.state[number] = ABSENT
        return 0

    # ---- recomputation -------------------------------------------------------------------------------------

    def verify(self):
        """Check everything now."""
        self.check()

    cdef int check(self) except -1:
        self.checks += 1
        self.check_rows()
        self.check_tree()
        self.state.view.refresh()
        self.check_view()
        return self.check_counters()

    cdef int fail(self, str what, node=None) except -1:
        raise AssertionError(f"{what} of node {node} after {self.operations} operations")

    cdef int check_rows(self) except -1:
        """Usage, presence and the lists of pods of each row."""
        cdef int32_t node, row, number, count, living = 0
        cdef int64_t cpu, memory, other_cpu, other_memory
        cdef mr_row* record
        cdef Shape shape
        for node in range(NODES):
            row = self.state.table.find(self.state.symbols.find(self.names[node]))
            cpu = memory = other_cpu = other_memory = count = 0
            for number in range(PODS):
                if self.now.state[number] != ABSENT and self.now.node[number] == node:
                    shape = self.state.classes.shape(self.classes[self.now.variant[number]])
                    count += 1
                    cpu += shape.c.cpu
                    memory += shape.c.memory
                    other_cpu += shape.c.nonzero_cpu
                    other_memory += shape.c.nonzero_memory
            living += count
            if row < 0:
                if count or self.now.kind[node] != NO_NODE:
                    self.fail("row", node)
                continue
            record = self.state.table.row(0, row)
            if ((record.flags & MR_PRESENT) != 0) != (self.now.kind[node] != NO_NODE):
                self.fail("presence", node)
            if record.pods != count or self.state.ledger.pods_on(row) != count:
                self.fail("number of pods", node)
            self.check_usage(node, row, [cpu, memory, other_cpu, other_memory])
            self.check_list(node, row, count)
        if len(self.state.ledger) != living:
            self.fail("number of pods")
        return 0

    cdef int check_usage(self, int32_t node, int32_t row, list expected) except -1:
        """Requests of a row; the exact ones where a double does not hold them."""
        cdef mr_ledger ledger
        cdef mr_row* record
        cdef int64_t* wide
        self.state.table.fill_ledger(0, &ledger)
        record = &ledger.rows[row]
        if record.flags & WIDE:
            wide = &ledger.wide[row * MR_FIELDS]
            found = [wide[2], wide[3], wide[4], wide[5]]
        else:
            found = [record.req_cpu, record.req_memory, record.nonzero_cpu, record.nonzero_memory]
        if found != expected:
            self.fail(f"requests {found} instead of {expected}", node)
        return 0

    cdef int check_list(self, int32_t node, int32_t row, int32_t count) except -1:
        """The pods of a row are linked in both directions, and are those of the model."""
        cdef Ledger ledger = self.state.ledger
        cdef RowRecord* listed = ledger.row(row)
        cdef PodRecord* pod
        cdef int32_t at = listed.first, before = NO_NODE, seen = 0, number
        while seen < count:
            pod = ledger.record(at)
            if pod.row != row or (seen and pod.before != before):
                self.fail("links", node)
            number = int(ledger.uid_of(at)[1:])
            if self.now.node[number] != node or pod.state != self.now.state[number]:
                self.fail("pod", node)
            if pod.pod_class != self.classes[self.now.variant[number]]:
                self.fail("class of a pod", node)
            before, at = at, pod.after
            seen += 1
        if count and listed.last != before:
            self.fail("last pod", node)
        return 0

    cdef int check_tree(self) except -1:
        """The number of nodes of each zone."""
        cdef NodeTree tree = self.state.tree
        cdef int32_t zones[ZONES]
        cdef int32_t node, nodes = 0
        memset(zones, 0, sizeof(zones))
        for node in range(NODES):
            if self.now.kind[node] != NO_NODE:
                zones[self.now.kind[node]] += 1
                nodes += 1
        if tree.size() != nodes:
            self.fail("size of the tree")
        found = sorted([len(tree.nodes_in(zone)) for zone in tree.zones])
        if found != sorted([zones[node] for node in range(ZONES) if zones[node]]):
            self.fail("zones")
        return 0

    cdef int check_view(self) except -1:
        """The view lists the nodes of the tree, each once, in an order that may be older; its positions are
        those of the list."""
        cdef int32_t position, row
        cdef int32_t* order = <int32_t*>self.state.view.order.data
        cdef int32_t* names
        if self.state.view.size != self.state.tree.size():
            self.fail("size of the view")
        names = <int32_t*>self.state.view.names.data
        listed = sorted([names[position] for position in range(self.state.view.size)])
        if listed != sorted(self.state.tree.list()):
            self.fail("nodes of the view")
        for position in range(self.state.view.size):
            row = order[position]
            if (<int32_t*>self.state.table.name.data)[row] != names[position]:
                self.fail("row in the view")
            if (<int32_t*>self.state.view.position.data)[row] != position + 1:
                self.fail("position in the view")
        return 0

    cdef int check_counters(self) except -1:
        """Pods by row and by domain, for each counter."""
        cdef Counter counter
        cdef Matched matched
        cdef int32_t node, row, number, domain, total
        cdef dict sums
        self.state.domains.refresh()
        for counter in self.state.domains.counters.values():
            matched, sums = counter.matched, {}
            for node in range(NODES):
                row = self.state.table.find(self.state.symbols.find(self.names[node]))
                if row < 0:
                    continue
                total = 0
                for number in range(PODS):
                    if self.now.state[number] == ABSENT or self.now.node[number] != node:
                        continue
                    if matched in self.state.domains.matched_by(self.classes[self.now.variant[number]]):
                        total += 1
                if (<int32_t*>matched.pods.data)[row] != total:
                    self.fail("matching pods", node)
                domain = counter.c.domain[row] or counter.c.absent
                if domain and counter.c.counts[row]:
                    sums[domain] = sums.get(domain, 0) + total
            for domain in range(1, counter.c.domains):
                if counter.c.pods[domain] != sums.get(domain, 0):
                    self.fail(f"domain {domain}")
            if counter.c.pods[0] != sum(sums.values()):
                self.fail("all domains")
        return 0
