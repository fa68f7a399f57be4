"""What selects pods besides pods: namespaces, by their labels; services and controllers, whose pods default
topology spread constraints spread."""

from moorage._core.base.selectors import LabelSelectorMatcher, with_labels

from moorage._core.base cimport LOG_NAMESPACE, LOG_WORKLOAD

CONTROLLERS = (("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))


cdef class Versioned:
    """Objects by key. `version` grows with every change, an undo included."""

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.journal = journal
        self.log = log

    cdef int _write(self, dict table, key, value, Kind kind) except -1:
        """Set a key of a table, or remove it where the value is None."""
        self.journal.on_undo(self._grow)
        if value is None:
            self.journal.drop(table, key)
        else:
            self.journal.put(table, key, value)
        self._grow()
        self.log.append(kind, 0)

    def _grow(self):
        self.version += 1


cdef class Namespaces(Versioned):
    """The labels of the namespaces that are known: inter-pod affinity selects namespaces by them."""

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.labels = {}

    cdef Namespaces clone(self, Journal journal, ChangeLog log):
        """An independent copy."""
        cdef Namespaces out = Namespaces(journal, log)
        out.labels = self.labels.copy()
        out.version = self.version
        return out

    def set(self, str name not None, dict labels not None):
        """Add a namespace, or replace its labels."""
        self._write(self.labels, name, labels, LOG_NAMESPACE)

    def remove(self, str name not None):
        """Remove a namespace."""
        self._write(self.labels, name, None, LOG_NAMESPACE)

    cdef dict labels_of(self, str name):
        """Labels of a namespace; none for one that is not known."""
        return self.labels.get(name, {})

    cdef frozenset selected(self, selector):
        """Names of the namespaces that a selector matches."""
        return frozenset([name for name, labels in self.labels.items() if selector.matches(labels)])


cdef class Workloads(Versioned):
    """Services by namespace and name, and controllers by (apiVersion, kind, namespace, name)."""

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.services = {}
        self.controllers = {}

    cdef Workloads clone(self, Journal journal, ChangeLog log):
        """An independent copy."""
        cdef Workloads out = Workloads(journal, log)
        out.services = {namespace: held.copy() for namespace, held in self.services.items()}
        out.controllers = self.controllers.copy()
        out.version = self.version
        return out

    def set(self, workload):
        """Add a service or a controller, or replace it."""
        self._set(workload, workload)

    def remove(self, workload):
        """Remove a service or a controller."""
        self._set(workload, None)

    def _set(self, workload, value):
        key = workload.api_version, workload.kind, workload.namespace, workload.name
        if workload.kind == "Service":
            services = self.services.setdefault(workload.namespace, {})
            self._write(services, workload.name, value, LOG_WORKLOAD)
        elif key[:2] in CONTROLLERS:
            self._write(self.controllers, key, value, LOG_WORKLOAD)

    cpdef object selector_of(self, str namespace, dict labels, tuple owner):
        """The selector of what a pod belongs to, or None where it is empty (kube-scheduler v1.36, helper
        DefaultSelector): the services that select it, and the controller that owns it.

        Parameters
        ----------
        owner : tuple or None
            (apiVersion, kind, name, uid) of the controller.
        """
        cdef dict wanted = {}
        for service in self.services.get(namespace, {}).values():
            selector = service.spec.selector
            if selector is not None and all([labels.get(key) == value for key, value in selector.items()]):
                wanted.update(selector)
        owned = None
        if owner is not None:
            found = self.controllers.get((owner[0], owner[1], namespace, owner[2]))
            if found is not None and owner[1] == "ReplicationController":
                wanted.update(found.spec.selector or {})
            elif found is not None:
                owned = _matcher(found.spec.selector)
        merged = with_labels(wanted, owned)
        return None if merged.is_empty else merged


def _matcher(selector):
    """The selector of a controller; None for a malformed one, which adds nothing."""
    try:
        return LabelSelectorMatcher(selector)
    except ValueError:
        return None
