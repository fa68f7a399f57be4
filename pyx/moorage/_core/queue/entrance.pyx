# cython: auto_pickle=False
"""The entrance of the scheduling queue: when pods came, and which may surely enter.

kube-scheduler v1.36, backend/queue/scheduling_queue.go. Not thread-safe; the queue has a lock.
"""

from libc.math cimport NAN, isnan
from libc.stdint cimport int64_t

from moorage._core.base cimport METADATA, SPEC, UID, Field, group_of
from moorage._core.queue.queued_pods cimport QueuedPodInfo

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void* PyUnicode_DATA(object text)

cdef enum:
    SERVER_STAMP = 20  # characters of 2006-01-02T15:04:05Z
    DAYS_TO_1970 = 719469  # from 0000-03-01, and 1

cdef tuple NO_RULE = ((), (), (), ())
cdef Field CREATION_TIMESTAMP = Field("creation_timestamp")
cdef Field SCHEDULER_NAME = Field("scheduler_name")


cdef class CreationClock:
    """A clock that shows the newest creation timestamp of the pods so far, for a queue without a clock of its
    own. Decisions thus never depend on when a program runs.

    Parameters
    ----------
    seconds : callable
        Returns the seconds since 1970 of a timestamp in RFC 3339.

    Attributes
    ----------
    now : float
        Seconds since 1970.
    """

    def __init__(self, seconds not None):
        self.seconds = seconds

    def __call__(self):
        return self.now

    cpdef QueuedPodInfo entry(self, pod):
        """Return the queue entry of a new pod as of its creation timestamp, and advance the clock to it."""
        cdef QueuedPodInfo info = QueuedPodInfo.__new__(QueuedPodInfo)
        cdef double at
        meta = METADATA.of(pod)
        created = CREATION_TIMESTAMP.of(meta)
        info.pod, info.uid, info.timestamp = pod, UID.of(meta), self.now
        if created:
            if created is not self.text:
                at = _seconds(created)
                self.at, self.text = self.seconds(created) if isnan(at) else at, created
            info.timestamp = self.at
            self.now = max(self.now, self.at)
        return info


cdef double _seconds(object timestamp) except? -1:
    """Return the seconds since 1970 of a timestamp in the form of an API server, 2006-01-02T15:04:05Z; NaN if
    it has another form or is no time."""
    cdef int64_t year, month, day, hour, minute, second
    cdef const char* text
    if type(timestamp) is not str or not PyUnicode_IS_COMPACT_ASCII(timestamp) \
            or len(<str>timestamp) != SERVER_STAMP:
        return NAN
    text = <const char*>PyUnicode_DATA(timestamp)
    if not (text[4] == text[7] == c"-" and text[10] == c"T"
            and text[13] == text[16] == c":" and text[19] == c"Z"):
        return NAN
    year = 100 * _two_digits(text) + _two_digits(text + 2)
    month, day, hour = _two_digits(text + 5), _two_digits(text + 8), _two_digits(text + 11)
    minute, second = _two_digits(text + 14), _two_digits(text + 17)
    if not (year >= 1 and 1 <= month <= 12 and 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return NAN
    if day < 1 or day > (28 if month == 2 else 30 + (month in (1, 3, 5, 7, 8, 10, 12))):
        return NAN  # or a leap day
    year, month = year - (month <= 2), month + 9 if month <= 2 else month - 3  # years that begin in March
    day += 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - DAYS_TO_1970
    return <double>(((day * 24 + hour) * 60 + minute) * 60 + second)


cdef inline int64_t _two_digits(const char* text) noexcept:
    """Return the number that two digits are; a number below -2000 for other characters."""
    if not (c"0" <= text[0] <= c"9" and c"0" <= text[1] <= c"9"):
        return -1 << 20
    return 10 * (text[0] - c"0") + text[1] - c"0"


cdef class Entrance:
    """Tells which pods PreEnqueue certainly passes.

    Parameters
    ----------
    rules : dict
        By scheduler name, whether PreEnqueue may reject a pod: names of fields of spec, and containers, all
        of which are empty for a pod that passes, functions that return None for it, and functions whose
        answers are alike for all pods of a group, and None for pods without one. None where it is not known.
        A pod of a name that is not here passes.
    """

    def __init__(self, dict rules not None):
        self.rules = {name: rule and _read_rule(rule) for name, rule in rules.items()}

    cdef bint passes(self, pod, set groups) except -1:
        """Whether PreEnqueue certainly passes a pod. `groups` takes the groups whose pods pass."""
        cdef Field field
        spec = SPEC.of(pod)
        name = SCHEDULER_NAME.of(spec)
        if name is not self.name:
            rule = self.rules.get(name, NO_RULE)
            self.name, self.is_known = name, rule is not None
            self.fields, self.held, self.asked, self.asked_by_group = rule or NO_RULE
        if not self.is_known:
            return False
        for field in <tuple>self.fields:
            if field.of(spec):
                return False
        for container in <tuple>self.held:
            if container:
                return False
        for ask in <tuple>self.asked:
            if ask(pod) is not None:
                return False
        return not self.asked_by_group or self.group_passes(pod, groups)

    cdef bint group_passes(self, pod, set groups) except -1:
        """Whether the functions that are asked once for a group pass a pod."""
        group = group_of(pod)
        key = self.name, group
        if group is None or key in groups:
            return True
        for ask in <tuple>self.asked_by_group:
            if ask(pod) is not None:
                return False
        groups.add(key)
        return True


cdef tuple _read_rule(rule):
    """Return the rule of a scheduler name as `Entrance` reads it, with readers of the fields."""
    fields, held, asked, asked_by_group = rule
    return tuple([Field(field) for field in fields]), tuple(held), tuple(asked), tuple(asked_by_group)
