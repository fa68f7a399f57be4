"""Validates manifests as the API server does: all fields, and all that is wrong at once.

Rules of single fields are in rules/validation_rules.txt, by struct and field; those between fields are
functions beside it. They see the JSON value of a manifest, so that fields count that scheduling does not
read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import msgspec

from moorage.errors import InputError
from moorage.lazy import NamedTuple

from ..apiserver.decode import CLUSTER_SCOPED, is_json
from ..apiserver.go_structs import decoding_fault
from ..apiserver.struct_tables import planned_parts
from ..apiserver.unknown_fields import LISTS, MAPS, struct_of
from ..field_errors import Fault, Json, forbidden, not_found, part, parts
from ..model.admission_registration import ADMISSION_POLICIES
from ..model.meta import Object, is_dns_label
from ..plain import joined
from ..releases import ALWAYS, DEFAULT_GATES, Condition, FeatureGates
from .field_checks import (
    GATED,
    MORE_VOLUMES,
    NO_SELECTOR,
    ON_CREATE,
    OTHER_PROFILE,
    OTHER_TYPE,
    Conditional,
    FieldRule,
    conditional,
    dependent_rules,
    field_rules,
)
from .request import without_admission
from .rules.update_rules import as_updated, update_causes
from .stored.version_defaults import with_version_defaults
from .validate_object import check_as_kueue, validate


class _Plan(NamedTuple):
    """What is checked of a struct: fields, rules between them, and the structs in its fields; one without a
    name stands for the rules."""

    fields: tuple[FieldRule, ...]
    rules: tuple[Conditional, ...]
    structs: tuple[tuple[str, str, str], ...]


@cache
def _plan(struct: str) -> _Plan:
    from .rules import (
        device_rules,
        group_rules,
        job_rules,
        pod_rules,
        quota_rules,
        scheduling_rules,
        validation_rules,
        workload_rules,
    )

    of_pods = (pod_rules, scheduling_rules)
    modules = (device_rules, group_rules, validation_rules, workload_rules, job_rules, quota_rules, *of_pods)
    tables = [module.RULES for module in modules]
    if struct.startswith("admissionregistration."):
        from .policy.policy_rules import RULES as OF_POLICIES  # they compile expressions

        tables.append(OF_POLICIES)
    between = [conditional(rule) for listed in tables for rule in listed.get(struct, ())]
    rules = *dependent_rules().get(struct, ()), *between
    inner = [_OF_RULES, *(each for each in planned_parts(struct, _plan) if each[0] not in _APART)]
    if struct == "core.v1.Node":  # which may be created with a status
        inner.append(("status", "core.v1.NodeStatus", ""))
    order = {name: at for at, name in enumerate(_ORDER.get(struct, ()))}
    inner.sort(key=lambda part: order.get(part[0], len(order) if part[0] else -1))
    return _Plan(tuple(field_rules().get(struct, ())), rules, tuple(inner))


_OF_RULES = ("", "", "")
_APART = ("metadata", "status")
"""Fields whose structs are judged otherwise, or dropped from a manifest."""
_OF_WORKLOAD = ("selector", "", "template")
_ORDER = {
    **dict.fromkeys(("apps.v1.DeploymentSpec", "apps.v1.ReplicaSetSpec"), _OF_WORKLOAD),
    **dict.fromkeys(("apps.v1.DaemonSetSpec", "apps.v1.StatefulSetSpec"), _OF_WORKLOAD),
    "batch.v1.JobSpec": ("template", "podFailurePolicy", "successPolicy", ""),
    "core.v1.PodSpec": ("", "volumes", "containers", "initContainers", "resourceClaims", "securityContext"),
    "resource.v1.DeviceClaim": ("requests", "", "constraints", "config"),
}
"""The order in which a server checks the structs in the fields of some structs, and their rules (""): those
of others come first."""


def has_rules(kind: str, api_version: str) -> bool:
    """Whether objects of a kind and version are judged."""
    return f"{_version(kind, api_version)}/{kind}" in _judged()


def _version(kind: str, api_version: str) -> str:
    """Return the version by whose rules a kind is judged: autoscaling/v1 has part of the fields of v2."""
    is_older = (kind, api_version) == ("HorizontalPodAutoscaler", "autoscaling/v1")
    return "autoscaling/v2" if is_older else api_version


@cache
def _judged() -> frozenset[str]:
    """The kinds that are judged, with their versions."""
    from .rules.validation_rules import KINDS

    return frozenset(
        (*KINDS, *(f"{struct().api_version}/{struct.__name__}" for struct in ADMISSION_POLICIES))
    )


def manifest_causes(
    text: Any, kind: str, api_version: str, gates: FeatureGates = DEFAULT_GATES
) -> list[Fault]:
    """Return what an API server finds wrong with a new object.

    Parameters
    ----------
    text : bytes or dict
        A manifest, as JSON text or value.
    gates : FeatureGates
        Those of the API server, with its release.

    Returns
    -------
    list of Fault
        Fields and texts, each once. What cannot be decoded is alone, and has no field.
    """
    if not has_rules(kind, api_version):
        return []
    value = msgspec.json.decode(text) if is_json(text) else text
    if not isinstance(value, dict):
        return []
    from .rules.validation_rules import as_checked, metadata_causes

    struct = struct_of(kind, _version(kind, api_version))
    if (fault := decoding_fault(value | {"kind": kind, "apiVersion": api_version}, struct)) is not None:
        return [fault]
    value = as_checked(value, kind) | {"kind": kind}
    of_fields = [*_causes(value, (struct, ""), value, lambda when: when is ALWAYS or when.holds(gates))]
    if kind in _SELECTOR_FIRST and any(cause.text.endswith(NO_SELECTOR) for cause in of_fields):
        of_fields = [cause for cause in of_fields if not cause.field.startswith("spec.template.")]
    of_metadata = [] if of_fields and kind == "PodDisruptionBudget" else metadata_causes(value, kind, gates)
    causes = [*dict.fromkeys([*of_metadata, *of_fields, *_unmounted(value, of_fields)])]
    causes = [cause for cause in causes if (kind, cause.field) != _OF_ADMISSION]
    sources = [cause.field for cause in causes if cause.text.endswith(MORE_VOLUMES)]
    surplus = tuple(f"{each.replace('gcePersistentDisk', 'persistentDisk')}." for each in sources)
    return [cause for cause in causes if not (surplus and cause.field.startswith(surplus))]


def newly_refused(
    value: Json, kind: str, api_version: str, before: FeatureGates, after: FeatureGates
) -> list[Fault]:
    """Return what an API server finds wrong with an object that another one, with other gates, accepts.

    Parameters
    ----------
    value : dict
        With the fields that are known.
    """
    if not has_rules(kind, api_version):
        return []

    def causes(gates: FeatureGates, other: FeatureGates) -> list[Fault]:
        struct = struct_of(kind, _version(kind, api_version))
        return [*_causes(value, (struct, ""), value, lambda when: when.holds(gates) > when.holds(other))]

    fields = {cause.field for cause in causes(before, after)}
    return [cause for cause in causes(after, before) if cause.field not in fields]


_OF_VOLUME = re.compile(r"(.*)\.volumes\[(\d+)\]")


def _unmounted(value: Json, causes: list[Fault]) -> Iterator[Fault]:
    """Yield mounts of volumes that are wrong: the API server does not know these."""
    places = {match.groups() for cause in causes if (match := _OF_VOLUME.match(cause.field))}
    for path in sorted({path for path, _ in places}):
        spec = value
        for name in path.split("."):
            spec = part(spec, name)
        volumes = parts(spec, "volumes")
        names = {volume.get("name") for at, volume in enumerate(volumes) if (path, str(at)) not in places}
        for listed, mounts in product(
            ("containers", "initContainers", "ephemeralContainers"), ("volumeMounts", "volumeDevices")
        ):
            for at, container in enumerate(parts(spec, listed)):
                for index, mount in enumerate(parts(container, mounts)):
                    if (name := mount.get("name")) and name not in names:
                        yield Fault(f"{path}.{listed}[{at}].{mounts}[{index}].name", not_found(name))


_OF_ADMISSION = "Pod", "spec.preemptionPolicy"
"""What a plugin refuses first, in its own words."""
_SELECTOR_FIRST = ("Deployment", "ReplicaSet")
"""Kinds whose template is not looked at if their selector is wrong."""


_VALUES = (
    *("spec", "template", "jobTemplate", "pool", "metric", "target", "podAffinityTerm"),
    *("scaleTargetRef", "describedObject"),
)
"""Fields that are no pointers: one that is absent is as if it were empty."""


def _causes(
    value: Json, at: tuple[str, str], root: Json, holds: Callable[[Condition], bool]
) -> Iterator[Fault]:
    """Yield what is wrong with a struct in its path, by the rules that hold."""
    struct, path = at
    plan, always = _plan(struct), holds(ALWAYS)
    prefix = f"{path}." if path else ""
    for field_rule in plan.fields:
        if always if field_rule.when is ALWAYS else holds(field_rule.when):
            yield from field_rule.faults(value.get(field_rule.name), prefix + field_rule.name)
    for name, inner, form in plan.structs:
        if not name:
            for rule, when, _ in plan.rules:
                if always if when is ALWAYS else holds(when):
                    yield from rule(value, path, root)
            continue
        item = value.get(name)
        if item is None:
            if name not in _VALUES or struct == "core.v1.ReplicationControllerSpec":
                continue
            item = {}
        field = prefix + name
        if form == LISTS and isinstance(item, list):
            for index, each in enumerate(parts(value, name)):
                yield from _causes(each, (inner, f"{field}[{index}]"), root, holds)
        elif form == MAPS and isinstance(item, dict):
            for key in item:
                yield from _causes(part(item, key), (inner, f"{field}[{key}]"), root, holds)
        elif not form and isinstance(item, dict):
            yield from _causes(item, (inner, field), root, holds)


# ---- changes -----------------------------------------------------------------------------------------------


def check_new(obj: Object, text: bytes, gates: FeatureGates = DEFAULT_GATES) -> None:
    """Check a manifest of a change by all its fields, also those that are not read.

    Raises
    ------
    InputError
        It is refused. The text has all causes.
    """
    if (name := obj.namespace) and obj.kind not in CLUSTER_SCOPED and not is_dns_label(name):
        raise InputError(f'namespaces "{name}" not found')
    refuse(manifest_causes(text, obj.kind, obj.api_version, gates))
    if not has_rules(obj.kind, obj.api_version):  # `validate` is stricter than a server about some fields
        validate(obj)
    else:
        check_as_kueue(obj)


_REQUIRED = "Required value"
_ONLY_FIXED = ("PriorityClass", "ResourceClaim", "ResourceClaimTemplate", "StorageClass")
"""Kinds of which an update is asked what may not change alone, not whether the values are valid."""
OF_NEW_PODS = tuple([forbidden(why) for why in (ON_CREATE, GATED, OTHER_TYPE, OTHER_PROFILE)])
"""What is wrong with new pods alone."""


def check_applied(
    old: Object, changed: Object, stored: Json | None, sent: Json, gates: FeatureGates = DEFAULT_GATES
) -> None:
    """Check what becomes of an object when a manifest is applied. What was wrong before is no error.

    Parameters
    ----------
    old, changed : Object
        Before and after; templates of both have the fields of their priority class.
    stored : dict or None
        The JSON value of `old` with all its fields. Without it, of fields that are not read only what the
        manifest has is known: that the object lacks one is no error.
    sent : dict
        The JSON value of `changed` with all its fields; without `stored`, the manifest.
    gates : FeatureGates
        Those of the API server, with its release.

    Raises
    ------
    InputError
        It is refused. The text has all causes.
    """
    kind, version = changed.kind, changed.api_version
    is_whole = stored is not None
    if stored is not None:
        before, after, value = stored, sent, sent
    else:
        head = {"kind": kind, "apiVersion": version}
        before, after = without_admission(old) | head, without_admission(changed) | head
        value = joined(after, sent)
    known = {cause.field for cause in manifest_causes(before, kind, version, gates)}
    causes = [
        cause
        for cause in manifest_causes(as_updated(before, value), kind, version, gates)
        if cause.field not in known and not (kind == "Pod" and cause.text in OF_NEW_PODS)
        if not (kind in _ONLY_FIXED and cause.field) or cause.field.startswith("metadata")
        if is_whole or not cause.text.startswith(_REQUIRED)
    ]
    if not (causes and not causes[0].field):  # it can be decoded
        states = [with_version_defaults(each, kind, version, gates) for each in (before, after)]
        causes += update_causes(states[0], states[1], gates)
    refuse([*dict.fromkeys(causes)])


def check_unread(document: Any, kind: str, api_version: str) -> None:
    """Check a manifest of a kind that is not read; the parameters are those of `check_new`.

    Raises
    ------
    InputError
        It is refused.
    """
    refuse(manifest_causes(document, kind, api_version))


def refuse(causes: list[Fault]) -> None:
    """Raise an InputError about all causes, if there are any."""
    if len(causes) == 1:
        raise InputError(causes[0].text, path=causes[0].field)
    if causes:
        raise InputError(f"[{', '.join(': '.join(cause) for cause in causes)}]")
