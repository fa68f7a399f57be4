# cython: auto_pickle=False, nonecheck=True
# So None, and a copy without its fields, are exceptions: Python hands objects to nearly each call.
"""Which of many nodes and claims could take a pod, by columns, without asking one by one.

What the columns refuse would refuse the pod for certain; what they leave is asked. They compare the most that
a host has left of each resource, the taints and requirements that many hosts share, and the pods that
topologies count. For speed alone (`tests/house/special_paths.toml`).
"""

from cpython cimport array
from libc.stdint cimport int32_t

from moorage._core.provision.domain_counts cimport ConstraintGroups, TopologyCounts, Host
from moorage._core.provision.label_requirements cimport LabelRequirement, RequirementSet

from moorage._core.provision.label_requirements import HOSTNAME

RESOURCES = ("cpu", "memory", "pods")  # what tables of hosts compare

cdef enum:
    WIDTH = 3  # of a row of resources
    UNKNOWN = 0  # answers
    YES
    NO

cdef double SLACK = 1e-12  # amounts are compared as floats, with so much in favour of the pod
cdef array.array DOUBLES = array.array("d"), INTS = array.array("i")
cdef dict NOTHING = {}


cdef int write_room(double* room, dict have, dict taken) except -1:
    cdef Py_ssize_t at
    for at in range(WIDTH):
        left = have.get(RESOURCES[at], 0) - taken.get(RESOURCES[at], 0)
        room[at] = <double>left + <double>abs(left) * SLACK
    return 0


def room_of(dict amounts not None):
    """Return the most that a pod may request of a host, which has amounts in units of 10**-9."""
    cdef double[WIDTH] room
    write_room(room, amounts, NOTHING)
    return room[0], room[1], room[2]


cdef class Kinds:
    """What several hosts have in common: taints and requirements."""

    cdef list hosts
    cdef dict numbers, values, agreed

    def __cinit__(self):
        self.hosts, self.numbers, self.values, self.agreed = [], {}, {}, {}

    cdef int32_t number(self, Host host) except -1:
        key = (host.requirements, host.taints) if host.taints else host.requirements
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.hosts)
            self.hosts.append(host)
        return number

    cdef bytearray answers(self, constraints):
        """By kind, whether taints and requirements let pods in, as far as it is known."""
        cdef bytearray answers = self.agreed.get(constraints)
        if answers is None:
            answers = self.agreed[constraints] = bytearray()
        if len(answers) < len(self.hosts):
            answers.extend(bytes(len(self.hosts) - len(answers)))
        return answers

    cdef bint agrees(self, Py_ssize_t kind, constraints) except -1:
        cdef Host host = self.hosts[kind]
        if host.taints and constraints.taint_refusal(host.taints):
            return False
        return constraints.names_host or not host.requirements.refusal(
            constraints.requirements, host.undefined
        )

    cdef tuple values_of(self, TopologyCounts counts):
        """What kinds have of the label of a group, each value once, and by kind the number of it."""
        cdef dict values
        cdef array.array of_kinds
        cdef Host host
        values, of_kinds = self.values.setdefault(counts.topology_key, ({}, array.copy(INTS)))
        for host in self.hosts[len(of_kinds):]:
            of_kinds.append(values.setdefault(counts.of_nodes(host.requirements), len(values)))
        return list(values), of_kinds


cdef class Question:
    """What one group asks of hosts for a pod: how many of its pods they have, or, with `values`, whether they
    can be in a domain of some."""

    cdef TopologyCounts counts
    cdef Py_ssize_t least, most
    cdef object mask
    cdef LabelRequirement own
    cdef list values
    cdef array.array of_kinds
    cdef bytearray answers

    cdef bint admits(self, Py_ssize_t kind, Py_ssize_t place) except -1:
        if self.values is None:
            return self.least <= self.counts.count(place) <= self.most
        cdef Py_ssize_t value = self.of_kinds.data.as_ints[kind]
        cdef LabelRequirement nodes
        if self.answers[value] == UNKNOWN:
            nodes = self.values[value]
            nodes = nodes if self.own is None else nodes.meet(self.own)
            self.answers[value] = YES if nodes.select(self.mask) else NO
        return self.answers[value] == YES


cdef class Asked:
    """A pod as a table looks for its hosts."""

    cdef object constraints
    cdef double[WIDTH] wanted
    cdef list questions
    cdef bytearray agreed  # by kind


cdef class HostTable:
    """Hosts by row, in the order in which they were added."""

    cdef readonly list hosts
    cdef Kinds kinds
    cdef array.array room, kind, place

    def __cinit__(self):
        self.hosts, self.kinds = [], Kinds()
        self.room, self.kind, self.place = array.copy(DOUBLES), array.copy(INTS), array.copy(INTS)

    def add(self, host, Host seen not None, dict have not None, dict taken not None=NOTHING):
        """Add a host that topologies see in some way, with the amounts that it has, and that its pods take,
        in units of 10**-9; its row."""
        cdef Py_ssize_t row = len(self.hosts)
        self.hosts.append(host)
        array.resize_smart(self.room, WIDTH * (row + 1))
        array.resize_smart(self.kind, row + 1)
        array.resize_smart(self.place, row + 1)
        self.place.data.as_ints[row] = seen.place
        self.update(row, seen, have, taken)
        return row

    def fork(self, rows):
        """Return the table for another pass, in which the hosts of some rows take no pod."""
        cdef HostTable table = type(self)()
        cdef Py_ssize_t row, at
        table.hosts, table.kinds, table.place = [*self.hosts], self.kinds, array.copy(self.place)
        table.room, table.kind = array.copy(self.room), array.copy(self.kind)
        for row in rows:
            if not 0 <= row < len(self.hosts):
                raise IndexError(f"the table has no row {row}")
            for at in range(WIDTH):
                table.room.data.as_doubles[WIDTH * row + at] = -1.0
        return table

    def update(self, Py_ssize_t row, Host seen not None, dict have not None, dict taken not None=NOTHING):
        """Say what has become of a host."""
        if not 0 <= row < len(self.hosts):
            raise IndexError(f"the table has no row {row}")
        self.kind.data.as_ints[row] = self.kinds.number(seen)
        write_room(self.room.data.as_doubles + WIDTH * row, have, taken)

    def possible(self, candidate, const int32_t[::1] order not None):
        """Return the places in an order of rows whose hosts could take a pod; nothing is placed while it is
        read."""
        cdef Asked asked = Asked()
        cdef Py_ssize_t at = 0
        asked.constraints = candidate.shape.constraints
        asked.wanted[0], asked.wanted[1], asked.wanted[2] = candidate.shape.wanted
        asked.questions = self._questions(candidate.groups)
        asked.agreed = self.kinds.answers(asked.constraints)
        while (at := self._next(order, at, asked)) < order.shape[0]:
            yield at
            at += 1

    cdef Py_ssize_t _next(self, const int32_t[::1] order, Py_ssize_t at, Asked asked) except -1:
        """The first place in an order, from one on, whose host could take a pod."""
        cdef Py_ssize_t row, kind, number, rows = len(self.hosts), questions = len(asked.questions)
        cdef const double* room = self.room.data.as_doubles
        cdef double cpu = asked.wanted[0], memory = asked.wanted[1], pods = asked.wanted[2]
        cdef Question question
        for at in range(at, order.shape[0]):
            row = order[at]
            if not 0 <= row < rows:
                raise IndexError(f"the table has no row {row}")
            if room[WIDTH * row] < cpu or room[WIDTH * row + 1] < memory or room[WIDTH * row + 2] < pods:
                continue
            kind = self.kind.data.as_ints[row]
            if asked.agreed[kind] == UNKNOWN:
                asked.agreed[kind] = YES if self.kinds.agrees(kind, asked.constraints) else NO
            if asked.agreed[kind] == NO:
                continue
            for number in range(questions):
                question = <Question>asked.questions[number]
                if not question.admits(kind, self.place.data.as_ints[row]):
                    break
            else:
                return at
        return order.shape[0]

    cdef list _questions(self, ConstraintGroups groups):
        """What the groups that decide ask of hosts; without those that pods which name their host ask of
        it."""
        cdef Question question
        cdef TopologyCounts counts
        cdef RequirementSet strict = groups.strict, own = groups.requirements
        cdef list questions = []
        cdef bint selects
        cdef Py_ssize_t at
        groups.look()
        for at in range(len(groups.groups)):
            question = Question()
            question.counts = counts = groups.groups[at]
            selects = groups.selecting[at]
            if counts.on_hosts:
                if HOSTNAME not in strict.by_key:
                    question.least, question.most = counts.least(selects), counts.most(selects)
                    questions.append(question)
                continue
            question.mask = counts.open_domains(counts.of_nodes(strict), selects)
            if question.mask != -1:
                question.own = own.by_key.get(counts.topology_key)
                question.values, question.of_kinds = self.kinds.values_of(counts)
                question.answers = bytearray(len(question.values))
                questions.append(question)
        return questions
