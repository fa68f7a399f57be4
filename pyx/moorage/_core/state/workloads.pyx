"""Services and controllers: what selects the pods that default topology spread constraints spread."""

from functools import partial

from moorage._core.base.selectors import LabelSelectorMatcher, with_labels

from moorage._core.base.change_log cimport LOG_WORKLOAD

CONTROLLERS = (("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))


cdef class Workloads:
    """Selectors of services by namespace and name, and of controllers by (apiVersion, kind, namespace, name).

    `version` grows with every change, an undo included.
    """

    def __cinit__(self, Journal journal not None, ChangeLog log not None):
        self.journal = journal
        self.log = log
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
        """A service or a controller is there, or has changed."""
        self._write(workload, workload)

    def remove(self, workload):
        """A service or a controller went."""
        self._write(workload, None)

    def _write(self, workload, now):
        key = workload.api_version, workload.kind, workload.namespace, workload.name
        if workload.kind == "Service":
            held, key = self.services.setdefault(workload.namespace, {}), workload.name
        elif key[:2] in CONTROLLERS:
            held = self.controllers
        else:
            return
        self.journal.on_undo(partial(self._restore, held, key, held.get(key)))
        self._restore(held, key, now)
        self.log.append(LOG_WORKLOAD, 0)

    def _restore(self, dict held, key, workload):
        if workload is None:
            held.pop(key, None)
        else:
            held[key] = workload
        self.version += 1

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
