"""What may not change of a stored object (kubernetes v1.34 to v1.38, pkg/apis/*/validation)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product, starmap
from typing import Any

from moorage._core.base.quantity import Quantity

from ...apiserver.unread_fields import masked
from ...field_errors import Fault, Json, forbidden, invalid, part, parts
from ...model.workload import KUEUE, MIN_PARALLELISM, QUEUE
from ...plain import plain
from ...read.object_defaults import missing_tolerations
from ...releases import FeatureGates
from ...workloads.kind_table import QUEUED
from ..field_checks import Conditional, conditional, during, quantity

UpdateRule = Callable[[Json, Json], Iterator[Fault]]
"""Yields what may not change so; gets an object before and after."""
_FIXED = "field is immutable"


def update_causes(old: Json, new: Json, gates: FeatureGates) -> list[Fault]:
    """Return what changes that may not.

    Parameters
    ----------
    old, new : dict
        Of one kind, both with defaults and canonical quantities.
    gates : FeatureGates
        Those of the API server, with its release.
    """
    rules = map(conditional, _RULES.get(str(new.get("kind")), ()))
    return [fault for each in rules if each.when.holds(gates) for fault in each.rule(old, new)]


def _without(value: Json, *names: str) -> Json:
    return {name: item for name, item in value.items() if name not in names and item not in (None, {}, [])}


def _same(old: Any, new: Any, field: str, why: str = _FIXED) -> Iterator[Fault]:
    """Check that a value is as before; nothing and an empty one are alike."""
    if _bare(old) != _bare(new):
        yield Fault(field, invalid(masked(new), why))


def _bare(value: Any) -> Any:
    """Return a value without fields that are empty."""
    if isinstance(value, dict):
        bare = {name: _bare(item) for name, item in value.items()}
        return {name: item for name, item in bare.items() if item not in (None, "", {}, [], False)}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _fixed(*fields: str) -> UpdateRule:
    """Return the rule that fields, named by their paths, stay."""

    def rule(old: Json, new: Json) -> Iterator[Fault]:
        for field in fields:
            before: Any = old
            after: Any = new
            for name in field.split("."):
                before = before.get(name) if isinstance(before, dict) else None
                after = after.get(name) if isinstance(after, dict) else None
            yield from _same(before, after, field)

    return rule


def _kept(*fields: str, why: str) -> UpdateRule:
    """Return the rule that fields stay, with a text of its own, which may name the field."""

    def rule(old: Json, new: Json) -> Iterator[Fault]:
        for field in fields:
            if (old.get(field) or None) != (new.get(field) or None):
                yield Fault(field, forbidden(why.format(field)))

    return rule


# ---- workloads ---------------------------------------------------------------------------------------------

_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_OF_STATEFUL_SET = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _stateful_set(old: Json, new: Json, names_fields: bool) -> Iterator[Fault]:
    """Which pods a StatefulSet has, and their claims, stay; `names_fields` says that there is an error for
    each field."""
    before, after = (_without(part(value, "spec"), *_MUTABLE) for value in (old, new))
    for spec in (before, after):
        claims = parts(spec, "volumeClaimTemplates")
        spec["volumeClaimTemplates"] = [_without(claim, "status", "apiVersion", "kind") for claim in claims]
    if names_fields:
        for name in ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"):
            yield from _same(before.get(name), after.get(name), f"spec.{name}")
    elif _bare(before) != _bare(after):
        yield Fault("spec", forbidden(_OF_STATEFUL_SET))


_JOB_FIELDS = (
    *("selector", "completionMode", "podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "managedBy"),
)
_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def _job(old: Json, new: Json) -> Iterator[Fault]:
    """What the controller counts by stays."""
    before, after = part(old, "spec"), part(new, "spec")
    is_elastic = before.get("completionMode") == "Indexed"
    if not is_elastic:
        yield from _same(before.get("completions"), after.get("completions"), "spec.completions")
    elif before.get("completions") != after.get("completions") != after.get("parallelism"):
        why = "can only be modified in tandem with spec.parallelism"
        yield Fault("spec.completions", invalid(after.get("completions"), why))
    for name in _JOB_FIELDS:
        yield from _same(before.get(name), after.get(name), f"spec.{name}")


def _job_template(old: Json, new: Json, directives: bool, resources: bool) -> Iterator[Fault]:
    """Where the pods of a Job run may change while it is suspended and has not started, or, with
    `directives`, has no pods; with `resources`, what they request, too."""
    before, status = part(old, "spec"), part(old, "status")
    is_suspended, has_started = bool(before.get("suspend")), status.get("startTime") is not None
    conditions = {(each.get("type"), each.get("status")) for each in parts(status, "conditions")}
    is_idle = is_suspended and not status.get("active")
    is_idle = is_idle and (not has_started or ("Suspended", "True") in conditions)
    states = [part(part(obj, "spec"), "template") for obj in (old, new)]
    if is_idle if directives else is_suspended and not has_started:
        states = [_without_directives(template) for template in states]
    field = "spec.template"
    if resources and is_idle:
        field, states = "spec.template.spec", [_without_resources(template) for template in states]
    if _bare(states[0]) != _bare(states[1]):
        shown: Any = new
        for name in field.split("."):
            shown = part(shown, name)
        yield Fault(field, invalid(masked(shown), _FIXED))


def _job_set(old: Json, new: Json) -> Iterator[Fault]:
    """The Jobs of a JobSet stay, but where their pods may be placed while it is suspended (its webhook)."""
    before, after = part(old, "spec"), part(new, "spec")
    is_suspended = before.get("suspend") or after.get("suspend")
    placement = ("labels", "annotations", *_DIRECTIVES) if is_suspended else ()
    old_jobs, new_jobs = (
        [_compared(job, placement) for job in parts(spec, "replicatedJobs")] for spec in (before, after)
    )
    yield from _same(old_jobs, new_jobs, "spec.replicatedJobs")


def _compared(job: Json, placement: Sequence[str]) -> Json:
    """Return a Job of a JobSet with the defaults of its webhook, without some fields of its pods."""
    template = part(job, "template")
    spec = {"completionMode": "Indexed"} | part(template, "spec")
    pods = part(spec, "template")
    metadata = _without(part(pods, "metadata"), *placement)
    of_pods = {"restartPolicy": "OnFailure"} | _without(part(pods, "spec"), *placement)
    template = template | {"spec": spec | {"template": {"metadata": metadata, "spec": of_pods}}}
    return {"replicas": 1, "groupName": "default"} | job | {"template": template}


def _in_queue(old: Json, new: Json) -> Iterator[Fault]:
    """What Kueue refuses of a job in one of its queues (v0.17, pkg/controller/jobframework and its jobs)."""
    is_running = [not _is_suspended(each) for each in (old, new)]
    before, after = (part(part(each, "metadata"), "labels") for each in (old, new))
    for label, stays in ((QUEUE, is_running[1]), (f"{KUEUE}/max-exec-time-seconds", any(is_running))):
        if stays:
            yield from _same(before.get(label, ""), after.get(label, ""), f"metadata.labels[{label}]")
    priority = f"{KUEUE}/priority-class"
    had, has = before.get(priority, ""), after.get(priority, "")
    if (had and not has) or (is_running[1] and has and not had):
        what = "added to a non-suspended workload" if has else "removed from a workload"
        text = invalid(has, f"WorkloadPriorityClass cannot be {what}")
        yield Fault(f"metadata.labels[{priority}]", text)
    is_partial = MIN_PARALLELISM in part(part(old, "metadata"), "annotations")
    if is_partial and is_running[0] and _parallelism(old) != _parallelism(new):
        why = "cannot change when partial admission is enabled and the job is not suspended"
        yield Fault("spec.parallelism", forbidden(why))


def _is_suspended(job: Json) -> bool:
    """Whether a job, as JSON, of one of the kinds that go through queues of Kueue waits."""
    spec = part(job, "spec")
    return bool(spec.get("suspend") or part(spec, "runPolicy").get("suspend"))


def is_admitted_anew(old: Json, new: Json) -> bool:
    """Whether Kueue stops an object that it has admitted, and queues it again, as its pods change.

    Parameters
    ----------
    old, new : dict
        Of any kind.
    """
    is_queued = _in_queue in _RULES.get(str(new.get("kind")), ())
    if QUEUE not in part(part(old, "metadata"), "labels") or not is_queued:
        return False
    if new.get("kind") == "Job":
        pods: list[Any] = [_parallelism(each) for each in (old, new)]
    else:
        pods = [_bare(_without(part(each, "spec"), "runPolicy", "suspend")) for each in (old, new)]
    return pods[0] != pods[1] and not any(map(_is_suspended, (old, new)))


def _parallelism(job: Json) -> Any:
    return part(job, "spec").get("parallelism", 1)


def _while_suspended(directives: bool, resources: bool) -> Conditional:
    """Return the rule of templates for two gates that are on or off."""
    gates = {
        "MutableSchedulingDirectivesForSuspendedJobs": directives,
        "MutablePodResourcesForSuspendedJobs": resources,
    }
    words = "; ".join(f"{'on' if is_on else 'off'} {name}" for name, is_on in gates.items())
    return during(words, partial(_job_template, directives=directives, resources=resources))


def _without_directives(template: Json) -> Json:
    spec, meta = part(template, "spec"), _without(part(template, "metadata"), "labels", "annotations")
    kept = _without(spec, *_DIRECTIVES) | {"affinity": _without(part(spec, "affinity"), "nodeAffinity")}
    return template | {"metadata": meta, "spec": kept}


def _without_resources(template: Json) -> Json:
    """Return the spec of a template without what its containers request."""
    lists = {
        name: [_without(container, "resources") for container in parts(part(template, "spec"), name)]
        for name in ("containers", "initContainers")
    }
    return part(template, "spec") | lists


# ---- volumes -----------------------------------------------------------------------------------------------

_OF_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
    "claims"
)
_CLASS = "volumeAttributesClassName"


_NOTHING = Quantity("0")


def _claim(old: Json, new: Json) -> Iterator[Fault]:
    before, after = part(old, "spec"), part(new, "spec")
    is_bound = part(old, "status").get("phase") == "Bound"
    sizes = [part(part(spec, "resources"), "requests").get("storage") for spec in (before, after)]
    allowed = dict(before)
    if before.get("volumeName") in (None, ""):
        allowed["volumeName"] = after.get("volumeName")
        if before.get("storageClassName") is None:
            allowed["storageClassName"] = after.get("storageClassName")
    if is_bound:
        resources = dict(part(before, "resources"))
        resources["requests"] = part(resources, "requests") | {"storage": sizes[1]}
        allowed["resources"] = resources
        if after.get(_CLASS) or not before.get(_CLASS):
            allowed[_CLASS] = after.get(_CLASS)
    classes = {spec.get("storageClassName") for spec in (allowed, after)}
    if _bare(allowed) != _bare(after) or classes == {None, ""}:
        yield Fault("spec", forbidden(_OF_CLAIM))
    given = [*sizes[::-1], part(part(old, "status"), "capacity").get("storage")]
    request, size, capacity = (quantity(each) or _NOTHING for each in given)
    if request < size and request <= capacity:
        why = "field can not be less than status.capacity"
        yield Fault("spec.resources.requests.storage", forbidden(why))
    yield from _same(before.get("volumeMode"), after.get("volumeMode"), "volumeMode")


_OF_VOLUME = (
    *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
    *("storageClassName", _CLASS, "volumeMode"),
)


def _volume(old: Json, new: Json) -> Iterator[Fault]:
    before, after = part(old, "spec"), part(new, "spec")
    if _bare(_without(before, *_OF_VOLUME)) != _bare(_without(after, *_OF_VOLUME)):
        why = "spec.persistentvolumesource is immutable after creation"
        yield Fault("spec.persistentvolumesource", forbidden(why))
    yield from _same(before.get("volumeMode"), after.get("volumeMode"), "volumeMode")


def _volume_nodes(old: Json, new: Json) -> Iterator[Fault]:
    before, after = (part(obj, "spec").get("nodeAffinity") for obj in (old, new))
    if before is not None:
        why = f"{_FIXED}, except for updating from beta label to GA"
        yield from _same(before, after, "nodeAffinity", why)


# ---- pods --------------------------------------------------------------------------------------------------

_OF_POD = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_OF_GATED_POD = (
    "`spec.schedulingGates` (only deletions of existing scheduling gates),"
    "`spec.nodeSelector` (only additions, and only while the pod has scheduling gates),"
    "`spec.affinity.nodeAffinity` (only while the pod has scheduling gates)"
)
_LISTS = ("containers", "initContainers")
_ADDED = [plain(toleration) for toleration in missing_tolerations(())]
"""What DefaultTolerationSeconds adds, to a pod that is changed, too."""


def _pod(old: Json, new: Json, why: str) -> Iterator[Fault]:
    before, after = part(old, "spec"), dict(part(new, "spec"))
    differ = False
    for name in _LISTS:
        if len(parts(before, name)) != len(parts(after, name)):
            yield Fault(f"spec.{name}", forbidden("pod updates may not add or remove containers"))
            differ = True
    gates = [gate.get("name") for gate in parts(before, "schedulingGates")]
    for at, gate in enumerate(parts(after, "schedulingGates")):
        if gate.get("name") not in gates:
            added = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield Fault(f"spec.schedulingGates[{at}].name", forbidden(added))
            differ = True
    if differ:
        return
    after["schedulingGates"] = before.get("schedulingGates")
    for name in _LISTS:
        pairs = zip(parts(before, name), parts(after, name), strict=True)
        after[name] = [container | {"image": own.get("image")} for own, container in pairs]
    after["activeDeadlineSeconds"] = before.get("activeDeadlineSeconds")
    tolerations = [*parts(after, "tolerations"), *_ADDED]
    if all(own in tolerations for own in parts(before, "tolerations")):
        after["tolerations"] = before.get("tolerations")
    if not (before.get("nodeSelector") or after.get("nodeSelector")):
        after["nodeSelector"] = before.get("nodeSelector")
    if gates:
        yield from _gated(before, after)
    if _bare(after) != _bare(before):
        yield Fault("spec", forbidden(why))


def _gated(before: Json, after: Json) -> Iterator[Fault]:
    """What may change of a pod with scheduling gates: where it may run becomes narrower."""
    own, selector = part(before, "nodeSelector"), part(after, "nodeSelector")
    why = "only additions to {} are allowed (no mutations or deletions)"
    if not own.items() <= selector.items():
        yield Fault("spec.nodeSelector", invalid(selector, why.format("spec.nodeSelector")))
    after["nodeSelector"] = before.get("nodeSelector")
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms, wanted = _node_terms(before), _node_terms(after)
    if terms and len(terms) != len(wanted):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield Fault(field, invalid(wanted, text))
    for at, (old, new) in enumerate(zip(terms, wanted, strict=False)):
        lists = ("matchExpressions", "matchFields")
        if not all(rule in parts(new, name) for name in lists for rule in parts(old, name)):
            yield Fault(f"{field}[{at}]", invalid(new, why.format("a term")))
    kept = part(before, "affinity").get("nodeAffinity")
    after["affinity"] = part(after, "affinity") | {"nodeAffinity": kept}


def _node_terms(spec: Json) -> list[Json]:
    affinity = part(part(spec, "affinity"), "nodeAffinity")
    return parts(part(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")


# ---- other kinds -------------------------------------------------------------------------------------------


_REACHED = ("NodePort", "LoadBalancer")
_OF_TYPES = (
    *((names, ("ClusterIP", *_REACHED)) for names in (("clusterIP", "clusterIPs"), ("ipFamilies",))),
    (("ipFamilyPolicy",), ("ClusterIP", *_REACHED)),
    (("externalTrafficPolicy",), _REACHED),
    *(
        ((name,), ("LoadBalancer",))
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")
    ),
)
"""Fields that only services of some types have."""


def as_updated(old: Json, new: Json) -> Json:
    """Return a changed object as it is validated: what its former type gave a Service goes with the type."""
    if new.get("kind") != "Service":
        return new
    before, after = part(old, "spec"), dict(part(new, "spec"))
    was, is_now = (spec.get("type") or "ClusterIP" for spec in (before, after))
    for names, types in _OF_TYPES:
        is_left = all(before.get(name) == after.get(name) for name in names)
        if was in types and is_now not in types and is_left:
            after |= dict.fromkeys(names)
    ports = [[port.get("nodePort") for port in parts(spec, "ports")] for spec in (before, after)]
    if was in _REACHED and is_now not in _REACHED and ports[0] == ports[1]:
        after["ports"] = [port | {"nodePort": None} for port in parts(after, "ports")]
    return new | {"spec": after}


def _service(old: Json, new: Json) -> Iterator[Fault]:
    before, after = part(old, "spec"), part(new, "spec")
    kinds = [spec.get("type") or "ClusterIP" for spec in (before, after)]
    if "ExternalName" in kinds:
        return
    addresses = [_addresses(spec, before) for spec in (before, after)]
    if addresses[0] and addresses[1] and addresses[0][0] != addresses[1][0]:
        yield Fault("spec.clusterIPs[0]", invalid(addresses[1], "may not change once set"))
    families = after.get("ipFamilies") or ()
    first = addresses[1][0] if addresses[1] else "None"
    if families and first != "None" and (families[0] == "IPv6") != (":" in first):
        why = f"expected an {families[0]} value as indicated by `ipFamilies[0]`"
        yield Fault("spec.clusterIPs[0]", invalid(first, why))


def _addresses(spec: Json, stored: Json) -> Sequence[str]:
    """Return the addresses of a Service: who changes the first one alone leaves the list as it is stored."""
    address, listed = spec.get("clusterIP"), spec.get("clusterIPs") or []
    is_left = address != stored.get("clusterIP") and listed == (stored.get("clusterIPs") or [])
    return [address] if address and (is_left or not listed) else listed


def _node(old: Json, new: Json, name: str, tells_how: bool) -> Iterator[Fault]:
    """What a node has got once stays; `tells_how` says that an error tells whether it was cleared."""
    before, after = part(old, "spec").get(name), part(new, "spec").get(name)
    if not before or before == after:
        return
    if tells_how and (name == "providerID" or not after):
        how = "modified" if after else "cleared"
        yield Fault(f"spec.{name}", invalid(None, f"field cannot be {how} once set"))
    else:
        why = f'node updates may not change {name.removesuffix("s")} except from "" to valid'
        yield Fault(f"spec.{name}", forbidden(why))


_OF_CLASS = ("parameters", "provisioner", "reclaimPolicy")


def _attached(old: Json, new: Json, shown: str) -> Iterator[Fault]:
    before, after = part(old, "spec"), part(new, "spec")
    yield from _same(before.get("attachRequired"), after.get("attachRequired"), f"spec.{shown}")


_RULES: dict[str, tuple[UpdateRule | Conditional, ...]] = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet"), (_fixed("spec.selector"),)),
    "StatefulSet": (
        during("until 1.36", partial(_stateful_set, names_fields=False)),
        during("since 1.37", partial(_stateful_set, names_fields=True)),
    ),
    **dict.fromkeys((kind.partition(".")[0] for kind in QUEUED), (_in_queue,)),
    "Job": (_job, _in_queue, *starmap(_while_suspended, product((True, False), repeat=2))),
    "JobSet": (_job_set, _in_queue),
    "PersistentVolumeClaim": (_claim,),
    "PersistentVolume": (_volume, during("off MutablePVNodeAffinity", _volume_nodes)),
    "Pod": (
        during("until 1.37", partial(_pod, why=_OF_POD)),
        during("since 1.38", partial(_pod, why=f"{_OF_POD},{_OF_GATED_POD}")),
    ),
    "Service": (_service,),
    "Node": (
        during("until 1.36", partial(_node, name="providerID", tells_how=False)),
        during("since 1.37", partial(_node, name="providerID", tells_how=True)),
        during("until 1.37", partial(_node, name="podCIDRs", tells_how=False)),
        during("since 1.38", partial(_node, name="podCIDRs", tells_how=True)),
    ),
    "PriorityClass": (
        during("until 1.37", _kept("value", why="may not be changed in an update.")),
        during("since 1.38", _fixed("value")),
        _fixed("preemptionPolicy"),
    ),
    "StorageClass": (
        during("until 1.35", _kept(*_OF_CLASS, why="updates to {} are forbidden.")),
        during("since 1.36", _fixed(*_OF_CLASS)),
        _fixed("volumeBindingMode"),
    ),
    "RuntimeClass": (_fixed("handler"),),
    "CSIDriver": (
        during("until 1.37", partial(_attached, shown="attachedRequired")),
        during("since 1.38", partial(_attached, shown="attachRequired")),
        _fixed("spec.volumeLifecycleModes"),
    ),
    "ResourceQuota": (_fixed("spec.scopes"),),
    **dict.fromkeys(("ResourceClaim", "ResourceClaimTemplate"), (_fixed("spec"),)),
    "ResourceSlice": (_fixed("spec.nodeName", "spec.driver", "spec.pool.name"),),
}
"""By kind, what yields the changes that are refused."""
