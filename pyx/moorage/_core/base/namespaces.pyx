"""The namespaces that are known, with their labels: inter-pod affinity selects namespaces by them."""

from functools import partial

from moorage._core.base.change_log cimport LOG_NAMESPACE


cdef class Namespaces:
    """Labels by name. `version` grows with every change, an undo included."""

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.journal = journal
        self.log = log
        self.labels = {}

    cdef Namespaces clone(self, Journal journal, ChangeLog log):
        """An independent copy."""
        cdef Namespaces out = Namespaces(journal, log)
        out.labels = self.labels.copy()
        out.version = self.version
        return out

    def set(self, str name not None, dict labels not None):
        """A namespace is there, with these labels."""
        self.journal.on_undo(partial(self._restore, name, self.labels.get(name)))
        self._restore(name, labels)
        self.log.append(LOG_NAMESPACE, 0)

    def remove(self, str name not None):
        """A namespace went."""
        self.journal.on_undo(partial(self._restore, name, self.labels.get(name)))
        self._restore(name, None)
        self.log.append(LOG_NAMESPACE, 0)

    def _restore(self, str name, labels):
        if labels is None:
            self.labels.pop(name, None)
        else:
            self.labels[name] = labels
        self.version += 1

    cpdef dict labels_of(self, str name):
        """Labels of a namespace; none for one that is not known."""
        return self.labels.get(name, {})

    cpdef frozenset selected(self, selector):
        """Names of the namespaces that a selector matches."""
        return frozenset([name for name, labels in self.labels.items() if selector.matches(labels)])
