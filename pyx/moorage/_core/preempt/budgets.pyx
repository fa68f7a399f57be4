"""Budgets: the PodDisruptionBudgets that match the pods of each class."""

from moorage._core.base.selectors import LabelSelectorMatcher

from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memset

from moorage._core.base cimport Buffer, Journal
from moorage._core.csrc cimport mr_budgets, mr_pod_entry
from moorage._core.preempt.importance cimport Importance
from moorage._core.state cimport PodClasses


cdef class Budgets:
    """The current budgets, grouped into the sets of budgets that match a pod. Set 0 is empty.

    kube-scheduler v1.36, filterPodsWithPDBViolation: a selector that is missing or malformed matches no pod,
    and up to v1.37 an empty one does not either, and no budget matches a pod without labels.

    Parameters
    ----------
    classes : PodClasses
    """

    def __cinit__(self, PodClasses classes not None):
        cdef Journal journal = Journal()
        memset(&self.c, 0, sizeof(mr_budgets))
        self.classes = classes
        self.of_class = Buffer(journal, sizeof(int32_t))
        self.of_pod = Buffer(journal, sizeof(int32_t))
        self.first = Buffer(journal, sizeof(int32_t))
        self.count = Buffer(journal, sizeof(int32_t))
        self.members = Buffer(journal, sizeof(int32_t))
        self.only = Buffer(journal, sizeof(int32_t))
        self.allowed = Buffer(journal, sizeof(int32_t))
        self.taken = Buffer(journal, sizeof(int32_t))
        self._begin((), [])

    def _begin(self, tuple objects, list rules):
        """Replace the budgets and their rules, and drop the sets of all classes."""
        self.objects, self.rules = objects, rules
        self.by_namespace, self.set_ids, self.sets = {}, {}, []
        self.known = self.n_members = 0
        self.has_several = False
        for at, budget in enumerate(objects):
            matcher = budget_matcher(budget, self.classes.gates.budgets_select_as_written)
            if matcher is not None:
                self.by_namespace.setdefault(budget.metadata.namespace, []).append((at, matcher))
        _intern(self, ())

    cdef int set(self, tuple budgets) except -1:
        """Replace the budgets. The sets of classes are kept if namespaces and selectors are unchanged."""
        cdef Py_ssize_t at
        if len(budgets) == len(self.objects) and all([a is b for a, b in zip(budgets, self.objects)]):
            return 0
        rules = [(budget.metadata.namespace, budget.spec.selector) for budget in budgets]
        if rules == self.rules:
            self.objects = budgets
        else:
            self._begin(budgets, rules)
        self.allowed.reserve(len(budgets) + 1)
        self.taken.reserve(len(budgets) + 1)
        for at, budget in enumerate(budgets):
            self.allowed.int32()[at] = budget.status.disruptions_allowed
        self.allowed.int32()[len(budgets)] = INT32_MAX
        self.exempt_names = [frozenset(budget.status.disrupted_pods) for budget in budgets]
        self.exempts = any(self.exempt_names)
        self.version += 1
        return 0

    cdef int follow(self) except -1:
        """Find the sets of new classes, and refresh cached pointers."""
        cdef int32_t pod_class
        self.of_class.reserve(len(self.classes.keys))
        for pod_class in range(self.known, <int32_t>len(self.classes.keys)):
            self.of_class.int32()[pod_class] = _set_of(self, pod_class)
            self.known = pod_class + 1
        self.c.of_class = self.of_class.int32()
        self.c.of_pod = NULL
        self._point()
        return 0

    def _point(self):
        """Refresh cached pointers."""
        self.c.first = self.first.int32()
        self.c.count = self.count.int32()
        self.c.members = self.members.int32()
        self.c.only = NULL if self.has_several else self.only.int32()
        self.c.allowed = self.allowed.int32()
        self.c.taken = self.taken.int32()

    cdef int exempt(self, Importance importance, const mr_pod_entry* entries, int32_t n) except -1:
        """Set `c.of_pod` for the pods of entries: for each its set less the budgets that exempt it."""
        cdef int32_t at, set_id, number, count = 0
        self.c.of_pod = NULL
        if not self.exempts:
            return 0
        for at in range(n):
            for number in importance.pods_in(&entries[at]):
                set_id = self.of_class.int32()[importance.ledger.class_of(number)]
                budgets = self.sets[set_id]
                if any([self.exempt_names[budget] for budget in budgets]):
                    name = importance.ledger.object_of(number).metadata.name
                    set_id = _intern(self, tuple([i for i in budgets if name not in self.exempt_names[i]]))
                self.of_pod.reserve(count + 1)
                self.of_pod.int32()[count] = set_id
                count += 1
        self._point()
        self.c.of_pod = self.of_pod.int32()
        return 0


cdef int32_t _set_of(Budgets budgets, int32_t pod_class) except -1:
    """The number of the set of a class."""
    cdef dict labels = budgets.classes.labels(pod_class)
    if not labels and not budgets.classes.gates.budgets_select_as_written:
        return 0
    listed = budgets.by_namespace.get(budgets.classes.shape(pod_class).namespace, ())
    return _intern(budgets, tuple([at for at, matcher in listed if matcher.matches(labels)]))


cdef int32_t _intern(Budgets budgets, tuple members) except -1:
    """The number of a set of budgets, which is added if it is new."""
    cdef Py_ssize_t at
    set_id = budgets.set_ids.get(members)
    if set_id is not None:
        return set_id
    at = len(budgets.sets)
    budgets.first.reserve(at + 1)
    budgets.count.reserve(at + 1)
    budgets.members.reserve(budgets.n_members + len(members))
    budgets.only.reserve(at + 1)
    budgets.has_several = budgets.has_several or len(members) > 1
    budgets.only.int32()[at] = members[0] if members else <int32_t>len(budgets.objects)
    budgets.first.int32()[at] = budgets.n_members
    budgets.count.int32()[at] = <int32_t>len(members)
    for budget in members:
        budgets.members.int32()[budgets.n_members] = budget
        budgets.n_members += 1
    budgets.set_ids[members] = at
    budgets.sets.append(members)
    return <int32_t>at


def budget_matcher(budget, bint empty_protects):
    """Return the compiled selector of a PodDisruptionBudget.

    Parameters
    ----------
    budget : PodDisruptionBudget
    empty_protects : bool
        Whether an empty selector matches all pods (`PodGates.budgets_select_as_written`).

    Returns
    -------
    LabelSelectorMatcher or None
        None if the selector is missing, malformed, or empty without that, so that it matches no pod.
    """
    try:
        matcher = LabelSelectorMatcher(budget.spec.selector)
    except ValueError:
        return None
    return None if matcher.is_empty and not empty_protects else matcher
