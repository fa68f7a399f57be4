"""Reading a pod's spec into what a shape is compiled from. Plain Python: it runs once per distinct spec."""

from collections import namedtuple

import msgspec

from moorage._core.csrc cimport (
    MR_DOES_NOT_EXIST,
    MR_EXISTS,
    MR_GT,
    MR_IN,
    MR_LT,
    MR_NAME_IN,
    MR_NAME_NOT_IN,
    MR_NAME_PARAMETER,
    MR_NOT_IN,
)
from moorage._core.state.images import normalized_image_name
from moorage._core.state.pod_terms import read_terms
from moorage._core.base.resources import NON_ZERO, ZERO, is_counted, nonzero_requests, pod_requests
from moorage._core.base.selectors import field_requirement_error, requirement_error, tolerates
from moorage._core.base.sets import Taint, Toleration

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NODE_NAME_FIELD = "metadata.name"
OPERATORS = {
    "In": MR_IN,
    "NotIn": MR_NOT_IN,
    "Exists": MR_EXISTS,
    "DoesNotExist": MR_DOES_NOT_EXIST,
    "Gt": MR_GT,
    "Lt": MR_LT,
}

Requirement = namedtuple("Requirement", "column op values number", module=__name__)

encode = msgspec.msgpack.Encoder().encode


def _resized(pod):
    """What of a status takes part in effective requests."""
    status = pod.status
    whole = status.resources is not None or bool(status.allocated_resources)
    if not whole and not status.container_statuses and not status.init_container_statuses:
        return ()
    statuses = (*status.container_statuses, *status.init_container_statuses)
    held = [s for s in statuses if s.resources is not None]
    if not held and not whole:
        return ()
    return held, status.resources, status.allocated_resources, status.conditions


def spec_key(pod):
    """Bytes that are equal only for pods of one shape. Of volumes a shape has only the images: pods that
    differ in their claims share one."""
    spec = pod.spec
    if spec.volumes:
        images = tuple([volume for volume in spec.volumes if volume.image is not None])
        spec = msgspec.structs.replace(spec, node_name="", volumes=images)
    elif spec.node_name:
        spec = msgspec.structs.replace(spec, node_name="")
    return encode((pod.metadata.namespace, spec, _resized(pod)))


def bound(pod, str node_name not None):
    """A pod as bound to a node. A batch enters pods as they came; the bound object is made when asked for.
    Its class is the same, and what is remembered of it."""
    if pod.spec.node_name == node_name:
        return pod
    out = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
    known = getattr(pod, "interned", None)
    if known is not None:
        msgspec.structs.force_setattr(out, "interned", known)
    return out


def is_only_bound(pod, reported):
    """True where a later state of a pod differs from it in nothing that its class depends on."""
    meta, now = pod.metadata, reported.metadata
    return (
        msgspec.structs.replace(pod.spec, node_name=reported.spec.node_name) == reported.spec
        and meta.namespace == now.namespace
        and meta.labels == now.labels
        and meta.annotations == now.annotations
        and meta.owner_references == now.owner_references
        and _resized(pod) == _resized(reported)
    )


def pinned_node(spec):
    """The one node that required node affinity names by matchFields (as DaemonSet pods do), or None.

    Only the plain form counts: one term whose single field requirement is metadata.name In [one name].
    """
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or affinity.required is None or len(affinity.required.node_selector_terms) != 1:
        return None
    fields = affinity.required.node_selector_terms[0].match_fields
    if len(fields) != 1 or fields[0].key != NODE_NAME_FIELD or fields[0].operator != "In":
        return None
    return fields[0].values[0] if len(fields[0].values) == 1 else None


def required_node_names(spec):
    """Node names that required node affinity narrows the search to, or None (kube-scheduler v1.36,
    node_affinity.go PreFilter): a set only if every term has a metadata.name In field."""
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or affinity.required is None or not affinity.required.node_selector_terms:
        return None
    names = set()
    for term in affinity.required.node_selector_terms:
        fields = [set(f.values) for f in term.match_fields if f.key == NODE_NAME_FIELD and f.operator == "In"]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return frozenset(names)


class PodSpecReader:
    """What `Shape` is compiled from; `key` identifies the shape.

    Parameters
    ----------
    pod : Pod
    names : PodClasses
        Gives symbols, and ids of resources, label keys and images.
    """

    def __init__(self, pod, names):
        self.names = names
        self.preferred_error = None
        self._read_requests(pod)
        self._read_tolerations(pod.spec)
        self._read_ports(pod.spec)
        self._read_images(pod.spec)
        self._read_node_affinity(pod.spec)
        self.spread = pod.spec.topology_spread_constraints
        self.terms, self.terms_error = read_terms(pod)
        self.declares_affinity = _declares_affinity(pod.spec)
        self.priority = pod.spec.priority or 0
        self.may_preempt = pod.spec.preemption_policy != "Never"
        self.ledger = 0 if names.ledger_of is None else names.ledger_of(pod)
        self.key = (
            pod.metadata.namespace, self.needs, self.requests, self.score_requests, self.nonzero_requests,
            self.others,
            self.tolerations, self.ports, self.images, self.image_containers, self.selector, self.required,
            self.has_required, self.has_node_affinity, self.preferred, self.has_preferred,
            self.preferred_error, self.is_pinned, self.node_names,
            tuple([tuple([term.key for term in terms]) for terms in self.terms]), self.terms_error,
            self.declares_affinity, _uncompiled(pod.spec), self.ledger,
        )

    def _read_requests(self, pod):
        pod_level, pod_resizes = self.names.gates.pod_level_resources, self.names.gates.pod_level_resizing
        needs = pod_requests(pod, None, pod_level, False)
        requests = pod_requests(pod, None, pod_level, True, pod_resizes) if _resized(pod) else needs
        nonzero = nonzero_requests(pod, requests, pod_level, pod_resizes)
        score = pod_requests(pod, NON_ZERO, False, False)
        self.needs = _cpu_and_memory(needs)
        self.requests = _cpu_and_memory(requests)
        self.score_requests = _cpu_and_memory(score)
        self.nonzero_requests = _cpu_and_memory(nonzero)
        kinds = requests, needs, score
        names = sorted(
            {name for kind in kinds for name in kind if name not in ("cpu", "memory") and is_counted(name)},
            key=lambda name: (name != "ephemeral-storage", name),
        )
        found = [(name, [kind.get(name, ZERO).value() for kind in kinds]) for name in names]
        self.others = tuple([
            (name, self.names.resources.intern(name) - 1, *amounts) for name, amounts in found if any(amounts)
        ])

    def _read_tolerations(self, spec):
        compares = self.names.gates.comparison_operators
        self.tolerations = tuple([
            Toleration(t.key, t.operator, t.value, t.effect) for t in spec.tolerations
            if compares or t.operator not in ("Lt", "Gt")
        ])
        self.tolerates_unschedulable = tolerates(self.tolerations, UNSCHEDULABLE)

    def _read_ports(self, spec):
        """Host ports of containers and sidecars; the address defaults to 0.0.0.0, the protocol to TCP."""
        cdef list out = []
        sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
        for container in (*spec.containers, *sidecars):
            for port in container.ports:
                if port.host_port > 0:
                    ip = self.names.symbols.intern(port.host_ip or "0.0.0.0")
                    protocol = self.names.symbols.intern(port.protocol or "TCP")
                    out.append((ip, protocol, port.host_port))
        self.ports = tuple(out)

    def _read_images(self, spec):
        names = [c.image for c in (*spec.containers, *spec.init_containers)]
        names += [v.image.reference for v in spec.volumes if v.image is not None]
        self.images = tuple([self.names.images.intern(normalized_image_name(name)) for name in names if name])
        self.image_containers = len(spec.containers) + len(spec.init_containers)

    def _read_node_affinity(self, spec):
        affinity = (spec.affinity and spec.affinity.node_affinity) or None
        required = affinity and affinity.required
        self.has_required = required is not None
        self.has_node_affinity = self.has_required or spec.node_selector is not None
        selector = sorted((spec.node_selector or {}).items())
        self.selector = tuple([self._requirement(key, "In", (value,)) for key, value in selector])
        self.is_pinned = pinned_node(spec) is not None
        names = required_node_names(spec)
        self.names_conflict = names is not None and not names
        self.node_names = None if self.is_pinned else names
        # A malformed required term is skipped like an empty one: neither matches anything.
        terms = required.node_selector_terms if self.has_required else ()
        terms = [t for t in terms if not _term_error(t) and _requirements(t)]
        self.required = tuple([self._term(t, self.is_pinned) for t in terms])
        self._read_preferred(affinity)

    def _read_preferred(self, affinity):
        self.has_preferred = affinity is not None and affinity.preferred is not None
        self.preferred = ()
        for term in (affinity.preferred if self.has_preferred else ()):
            if term.weight == 0 or not _requirements(term.preference):
                continue
            error = _term_error(term.preference)
            if error:
                self.preferred_error = error
                return
            self.preferred += ((term.weight, self._term(term.preference, False)),)

    def _term(self, term, is_pinned):
        expressions = [self._requirement(r.key, r.operator, r.values) for r in term.match_expressions]
        return tuple(expressions + [self._field(r, is_pinned) for r in term.match_fields])

    def _requirement(self, str key, str operator, tuple values):
        number = int(values[0]) if operator in ("Gt", "Lt") else 0
        symbols = tuple([self.names.symbols.intern(v) for v in values]) if operator in ("In", "NotIn") else ()
        return Requirement(self.names.label_keys.intern(key) - 1, OPERATORS[operator], symbols, number)

    def _field(self, r, is_pinned):
        if is_pinned:
            return Requirement(-1, MR_NAME_PARAMETER, (), 0)
        op = MR_NAME_IN if r.operator == "In" else MR_NAME_NOT_IN
        return Requirement(-1, op, tuple([self.names.symbols.intern(v) for v in r.values]), 0)


def _declares_affinity(spec):
    """Whether a pod has affinity or anti-affinity, be it without a term: its node is then in upstream's list
    of those that have pods with affinity."""
    affinity = spec.affinity
    sides = affinity and (affinity.pod_affinity, affinity.pod_anti_affinity)
    return bool(sides) and any([side is not None for side in sides])


def _uncompiled(spec):
    """What is not compiled but decides: who schedules the pod, when, and what it must spread over."""
    return encode((
        spec.scheduler_name, spec.priority, spec.preemption_policy, spec.scheduling_gates,
        spec.topology_spread_constraints,
    ))


def _cpu_and_memory(requests):
    return requests.get("cpu", ZERO).milli_value(), requests.get("memory", ZERO).value()


def _requirements(term):
    return (*term.match_expressions, *term.match_fields)


def _term_error(term):
    """Why upstream cannot parse a node selector term, or None."""
    for r in term.match_expressions:
        error = requirement_error(r.key, r.operator, r.values, node=True)
        if error:
            return error
    for r in term.match_fields:
        error = field_requirement_error(r.key, r.operator, r.values)
        if error:
            return error
    return None
