"""What the API server warns of in an object that it stores (kubernetes v1.36, pkg/api/*/warnings.go)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.errors import first_of
from moorage.grouped import grouped

from ...apiserver.go_structs import decoding_fault
from ...apiserver.unknown_fields import struct_of
from ...cel.text_formats import format_errors
from ...field_errors import Json, part, parts
from ...model.cluster import RequestedObject
from ...model.meta import Object
from ...model.storage import BETA_STORAGE_CLASS
from ...releases import FeatureGates
from ..pod_security import APP_ARMOR, SECCOMP
from ..validate_object import CONTAINERS
from .service_accounts import all_containers
from .version_defaults import with_version_defaults

_EXAMPLES = 3
_TEMPLATES = {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
    "Pod": (),
}
"""The fields that lead to the template of the pods of a kind."""


def strategy_warnings(value: Json, is_new: bool = True, keeps_template: bool = False) -> Iterator[str]:
    """Yield what a server warns of when it stores an object of a built-in kind.

    Parameters
    ----------
    value : dict
        The object, with the defaults of its version.
    is_new : bool
        Whether it is created. A server warns of names then alone, of the tokens of a CSIDriver when they
        change, and of nothing when a pod does.
    keeps_template : bool
        Whether a server does not look at the template again, as the workload has not changed.
    """
    kind = value["kind"]
    if kind in _KINDS and (is_new or kind in _OF_UPDATES):
        yield from _KINDS[kind](value)
    if (fields := _TEMPLATES.get(kind)) is not None and (is_new or not (keeps_template or kind == "Pod")):
        template = value
        for name in fields:
            template = part(template, name)
        path = "".join(f"{name}." for name in fields)
        yield from _of_pod(part(template, "spec"), part(template, "metadata"), path)


def request_warnings(
    request: RequestedObject, gates: FeatureGates, keeps_template: bool = False
) -> Iterator[str]:
    """Yield what a server warns of when it stores an object of a change, by its manifest."""
    sent = request.value()
    kind, version = str(sent.get("kind")), str(sent.get("apiVersion"))
    if kind not in _KINDS and kind not in _TEMPLATES:
        return
    if (struct := struct_of(kind, version)) and decoding_fault(sent, struct) is None:
        completed = with_version_defaults(sent, kind, version, gates)
        yield from strategy_warnings(completed, request.is_new is not False, keeps_template)


def warnings_of_change(
    requests: Iterable[RequestedObject], gates: FeatureGates, stored: Iterable[tuple[Object | None, Object]]
) -> Iterator[str]:
    """Yield a sentence about each warning of a server, with the objects that have it. Of a template a server
    warns again where its workload changes: that of a DaemonSet itself, of others any part of their spec.

    Parameters
    ----------
    stored : iterable of (Object or None, Object)
        See `AppliedChange`.
    """
    kept = {(new.kind, new.namespace, new.name) for old, new in stored if _keeps_template(old, new)}
    by_text = grouped(
        (text, request)
        for request in requests
        for text in request_warnings(request, gates, bool(kept) and request.key in kept)
    )
    for text, warned in by_text.items():
        yield f"{warned[0].source}: {first_of([each.name for each in warned], _EXAMPLES)}: {text}."


def _keeps_template(old: Any, new: Any) -> bool:
    if old is None or new.kind not in _TEMPLATES or new.kind == "Pod":
        return False
    if new.kind == "PodTemplate":
        return bool(old.template == new.template)
    before, after = old.spec, new.spec
    return bool(before.template == after.template if new.kind == "DaemonSet" else before == after)


# ---- pods --------------------------------------------------------------------------------------------------

_BETA_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" '
    "instead",
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" '
    "instead",
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" '
    "instead",
}
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" '
    "field instead",
    "seccomp.security.alpha.kubernetes.io/pod": 'non-functional in v1.27+; use the "seccompProfile" field '
    "instead",
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field '
    "instead",
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_RULE = "DuringSchedulingIgnoredDuringExecution"
_IN_BYTES = ("memory", "storage", "ephemeral-storage")


def _of_pod(spec: Json, meta: Json, path: str) -> Iterator[str]:
    for key in part(spec, "nodeSelector"):
        if key in _BETA_LABELS:
            yield f"{path}spec.nodeSelector[{key}]: {_BETA_LABELS[key]}"
    for at, constraint in enumerate(parts(spec, "topologySpreadConstraints")):
        where = f"{path}spec.topologySpreadConstraints[{at}]"
        if (key := str(constraint.get("topologyKey"))) in _BETA_LABELS:
            yield f"{where}.topologyKey: {key} is {_BETA_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NO_SELECTOR}"
    yield from _of_annotations(spec, meta, path)
    yield from _of_volumes(parts(spec, "volumes"), path)
    counted = Counter[str]()
    for at, secret in enumerate(parts(spec, "imagePullSecrets")):
        name = str(secret.get("name") or "")
        if not name:
            yield f'{path}spec.imagePullSecrets[{at}].name: invalid empty name ""'
        elif counted[name]:
            yield f'{path}spec.imagePullSecrets[{at}].name: duplicate name "{name}"'
        counted[name] += 1
    for kind in CONTAINERS:
        for at, container in enumerate(parts(spec, kind)):
            yield from _of_container(container, f"{path}spec.{kind}[{at}]")
    for name, amount in part(spec, "overhead").items():
        yield from _fraction(name, amount, f"{path}spec.overhead[{name}]")
    for which in ("podAffinity", "podAntiAffinity"):
        for required in ("required", "preferred"):
            terms = parts(part(part(spec, "affinity"), which), f"{required}{_RULE}")
            for at, term in enumerate(terms):
                where = f"{path}spec.affinity.{which}.{required}{_RULE}[{at}]"
                if required == "preferred":
                    term, where = part(term, "podAffinityTerm"), f"{where}.podAffinityTerm"
                if term.get("labelSelector") is None:
                    yield f"{where}.labelSelector: {_NO_SELECTOR}"


def _of_annotations(spec: Json, meta: Json, path: str) -> Iterator[str]:
    names = {str(item.get("name")): item for item in all_containers(spec)}
    annotations = part(meta, "annotations")
    for key, why in _ANNOTATIONS.items():
        if key in annotations and not (key.startswith("seccomp") and _has(spec, "seccompProfile")):
            yield f"{path}metadata.annotations[{key}]: {why}"
    for start, profile, why in (
        (SECCOMP[1], "seccompProfile", "non-functional in v1.27+"),
        (APP_ARMOR, "appArmorProfile", "deprecated since v1.30"),
    ):
        for name, container in names.items():
            if start + name in annotations and not _has(container, profile):
                yield f'{path}metadata.annotations[{start}{name}]: {why}; use the "{profile}" field instead'


def _has(holder: Json, profile: str) -> bool:
    """Whether a security context has a profile."""
    return part(holder, "securityContext").get(profile) is not None


def _of_volumes(volumes: list[Json], path: str) -> Iterator[str]:
    for at, volume in enumerate(volumes):
        for name, why in _VOLUMES.items():
            if volume.get(name) is not None:
                yield f"{path}spec.volumes[{at}].{name}: {why}"
        template = part(part(volume, "ephemeral"), "volumeClaimTemplate")
        where = f"{path}spec.volumes[{at}].ephemeral.volumeClaimTemplate.spec"
        yield from _of_claim_spec(part(template, "spec"), where)
    for volume in volumes:
        sources = part(volume, "projected").get("sources")
        kinds = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "podCertificate")
        if sources and any(not any(part(source, kind) for kind in kinds) for source in sources):
            yield f'volume "{volume.get("name")}" (Projected) has no sources provided'


def _of_container(container: Json, where: str) -> Iterator[str]:
    for what in ("limits", "requests"):
        for name, amount in part(part(container, "resources"), what).items():
            yield from _fraction(name, amount, f"{where}.resources.{what}[{name}]")
    earlier = set[str]()
    for at, variable in enumerate(parts(container, "env")):
        name = str(variable.get("name"))
        # One that is made of its former value is meant to stand twice.
        if name in earlier and f"$({name})" not in str(variable.get("value") or ""):
            hides = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{where}.env[{at}]: {hides}"
        earlier.add(name)


def _fraction(name: str, amount: Any, where: str) -> Iterator[str]:
    """Yield a warning about bytes that are no whole number."""
    if name in _IN_BYTES and (given := Quantity(amount)).milli_value() % 1000:
        yield f'{where}: fractional byte value "{given}" is invalid, must be an integer'


# ---- other kinds -------------------------------------------------------------------------------------------


def _pod(pod: Json) -> Iterator[str]:
    return _named(pod, "the Pod's hostname")


def _named(obj: Json, uses: str = "Pod names and hostnames") -> Iterator[str]:
    """Yield a warning about a name that is no DNS label."""
    errors = format_errors("dns1123Label", str(part(obj, "metadata").get("name") or "a"))
    if errors:
        what = "which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: this is used in {uses}, {what}: [{', '.join(errors)}]"


def _stateful_set(stateful_set: Json) -> Iterator[str]:
    for at, claim in enumerate(parts(part(stateful_set, "spec"), "volumeClaimTemplates")):
        yield from _of_claim_spec(part(claim, "spec"), f"spec.volumeClaimTemplates[{at}]")
    limit = part(stateful_set, "spec").get("revisionHistoryLimit")
    if limit is not None and limit < 0:
        why = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {why}"


def _of_old_class(obj: Json) -> Iterator[str]:
    if BETA_STORAGE_CLASS in part(part(obj, "metadata"), "annotations"):
        why = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{BETA_STORAGE_CLASS}]: {why}"


def _claim(claim: Json) -> Iterator[str]:
    yield from _of_old_class(claim)
    yield from _of_claim_spec(part(claim, "spec"), "spec")


def _of_claim_spec(spec: Json, where: str) -> Iterator[str]:
    for what in ("requests", "limits"):
        storage = part(part(spec, "resources"), what).get("storage")
        if storage is not None:
            yield from _fraction("storage", storage, f"{where}.resources.{what}[storage]")


def _volume(volume: Json) -> Iterator[str]:
    spec = part(volume, "spec")
    yield from _of_old_class(volume)
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
            "recommended approach is to use dynamic provisioning."
        )
    for name, why in _VOLUMES.items():
        if spec.get(name) is not None:
            yield f"spec.{name}: {why}"


def _driver(driver: Json) -> Iterator[str]:
    spec = part(driver, "spec")
    if spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
            "prevent possible logging of tokens in volume attributes"
        )


def _node(node: Json) -> Iterator[str]:
    if part(node, "spec").get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _service(service: Json) -> Iterator[str]:
    spec = part(service, "spec")
    if spec.get("externalIPs"):
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


_KINDS: dict[str, Callable[[Json], Iterator[str]]] = {
    "Pod": _pod,
    "Job": _named,
    "CronJob": _named,
    "Deployment": _named,
    "ReplicaSet": _named,
    "StatefulSet": _stateful_set,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "CSIDriver": _driver,
    "Node": _node,
    "Service": _service,
}
_OF_UPDATES = _KINDS.keys() - {"Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "CSIDriver"}
