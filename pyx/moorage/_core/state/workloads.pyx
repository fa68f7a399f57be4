"""Labels of namespaces, and selectors of services and controllers.

Inter-pod affinity selects namespaces by their labels. Default topology spread constraints apply to the pods
that share the services and the controller of the pod.
"""

from moorage._core.base.selectors import LabelSelectorMatcher, with_labels

from moorage._core.base cimport LOG_NAMESPACE, LOG_WORKLOAD

CONTROLLERS = (("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))


cdef class Versioned:
    """A table of objects with a version."""

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.journal = journal
        self.log = log

    cdef int _write(self, dict table, key, value, Kind kind) except -1:
        """Set a key of a table, undoably, and log the change; a value of None removes the key."""
        self.journal.on_undo(self._grow)
        if value is None:
            self.journal.drop(table, key)
        else:
            self.journal.put(table, key, value)
        self._grow()
        self.log.append(kind, 0)

    def _grow(self):
        """Increment the version."""
        self.version += 1


cdef class Namespaces(Versioned):
    """The labels of the namespaces, by name.

    Parameters
    ----------
    journal : Journal
    log : ChangeLog
    """

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.labels = {}

    cdef Namespaces clone(self, Journal journal, ChangeLog log):
        """Return an independent copy."""
        cdef Namespaces out = Namespaces(journal, log)
        out.labels = self.labels.copy()
        out.version = self.version
        return out

    def set(self, str name not None, dict labels not None):
        """Add a namespace, or replace its labels.

        Parameters
        ----------
        name : str
        labels : dict of str to str
        """
        self._write(self.labels, name, labels, LOG_NAMESPACE)

    def remove(self, str name not None):
        """Remove a namespace, if it is there.

        Parameters
        ----------
        name : str
        """
        self._write(self.labels, name, None, LOG_NAMESPACE)

    cdef dict labels_of(self, str name):
        """Return the labels of a namespace, empty for an unknown one."""
        return self.labels.get(name, {})

    cdef frozenset selected(self, selector):
        """Return the names of the namespaces that a selector matches."""
        return frozenset([name for name, labels in self.labels.items() if selector.matches(labels)])


cdef class Workloads(Versioned):
    """Services by namespace and name, and controllers by (apiVersion, kind, namespace, name).

    The controllers are ReplicationControllers, ReplicaSets and StatefulSets.

    Parameters
    ----------
    journal : Journal
    log : ChangeLog
    """

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.services = {}
        self.controllers = {}

    cdef Workloads clone(self, Journal journal, ChangeLog log):
        """Return an independent copy."""
        cdef Workloads out = Workloads(journal, log)
        out.services = {namespace: held.copy() for namespace, held in self.services.items()}
        out.controllers = self.controllers.copy()
        out.version = self.version
        return out

    def set(self, workload):
        """Add a service or a controller, or replace it; other kinds are ignored.

        Parameters
        ----------
        workload : Service, ReplicationController, ReplicaSet or StatefulSet
        """
        self._set(workload, workload)

    def remove(self, workload):
        """Remove a service or a controller, if it is there.

        Parameters
        ----------
        workload : Service, ReplicationController, ReplicaSet or StatefulSet
        """
        self._set(workload, None)

    def _set(self, workload, value):
        """Set the entry of a workload, or remove it for a value of None."""
        key = workload.api_version, workload.kind, workload.namespace, workload.name
        if workload.kind == "Service":
            services = self.services.setdefault(workload.namespace, {})
            self._write(services, workload.name, value, LOG_WORKLOAD)
        elif key[:2] in CONTROLLERS:
            self._write(self.controllers, key, value, LOG_WORKLOAD)

    cpdef object selector_of(self, str namespace, dict labels, tuple owner):
        """Return the default selector of a pod (kube-scheduler v1.36, helper/spread.go DefaultSelector).

        It requires the selectors of the services that select the pod and that of its controller.

        Parameters
        ----------
        namespace : str
            The namespace of the pod.
        labels : dict of str to str
            The labels of the pod.
        owner : tuple of (str, str, str, str) or None
            (apiVersion, kind, name, uid) of the controller.

        Returns
        -------
        LabelSelectorMatcher or None
            None if nothing selects the pod.
        """
        cdef dict wanted = {}
        for service in self.services.get(namespace, {}).values():
            selector = service.spec.selector
            if selector is not None and all([labels.get(key) == value for key, value in selector.items()]):
                wanted.update(selector)
        owned = None
        if owner is not None:
            api_version, kind, name, _ = owner
            controller = self.controllers.get((api_version, kind, namespace, name))
            if controller is not None and kind == "ReplicationController":
                wanted.update(controller.spec.selector or {})
            elif controller is not None:
                owned = _matcher(controller.spec.selector)
        if not wanted and owned is None:
            return None
        merged = with_labels(wanted, owned)
        return None if merged.is_empty else merged


def _matcher(selector):
    """Return the parsed selector of a controller; None for an invalid one, which then adds nothing."""
    try:
        return LabelSelectorMatcher(selector)
    except ValueError:
        return None
