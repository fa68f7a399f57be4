"""Reads v1beta1 of Kueue's kinds into v1beta2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moorage.errors import InputError

from ..model import kueue
from ..model.kueue import STOP
from ..model.workload import KUEUE

Values = dict[str, Any]
KINDS = {struct.__name__: struct for struct in kueue.KINDS}
"""The kinds that are read."""
_V1BETA1, _V1BETA2 = f"{KUEUE}/v1beta1", f"{KUEUE}/v1beta2"
_FOREIGN = {
    ("ClusterQueue", _V1BETA2): ("cohort", "admissionChecks"),
    ("ClusterQueue", _V1BETA1): ("cohortName",),
    ("Cohort", _V1BETA2): ("parent",),
    ("Workload", _V1BETA2): ("priorityClassName", "priorityClassSource"),
    ("Workload", _V1BETA1): ("priorityClassRef",),
}
"""Fields that only another version has."""
_STOPS = {("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")}
_CLASSES = {
    "kueue.x-k8s.io/workloadpriorityclass": (KUEUE, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


def to_v1beta2(value: Values, kind: str) -> Values:
    """Return an object of Kueue as one of v1beta2.

    Parameters
    ----------
    value : dict
        The JSON value; without a version it is of v1beta2.

    Raises
    ------
    InputError
        No version that Kueue serves has the kind, or a field.
    """
    version = value.get("apiVersion") or _V1BETA2
    if version not in (_V1BETA1, _V1BETA2):
        raise InputError(f'no matches for kind "{kind}" in version "{version}"')
    spec = value.get("spec")
    if not isinstance(spec, dict):
        return value | {"apiVersion": _V1BETA2}
    if foreign := [each for each in _FOREIGN.get((kind, version), ()) if each in spec]:
        raise InputError(f'strict decoding error: unknown field "spec.{foreign[0]}"')
    converted = value | {"apiVersion": _V1BETA2}
    return converted | {"spec": _converted(dict(spec), kind)} if version == _V1BETA1 else converted


def check_quotas(value: Values) -> None:
    """Refuse quotas that lack what Kueue's CRDs require; a struct does not tell 0 from none.

    Raises
    ------
    InputError
        A field is missing.
    """
    spec = value.get("spec") or {}
    for group, path in _dicts(spec, "resourceGroups", "spec", ("coveredResources", "flavors")):
        for flavor, its_path in _dicts(group, "flavors", path, ("name", "resources")):
            for _ in _dicts(flavor, "resources", its_path, ("name", "nominalQuota")):
                pass


def _dicts(value: Values, field: str, path: str, required: Iterable[str]) -> Iterator[tuple[Values, str]]:
    """Yield the items of a list with their paths; each has to have some fields, lists that are not empty."""
    items = value.get(field)
    for at, item in enumerate(items if isinstance(items, list) else ()):
        where = f"{path}.{field}[{at}]"
        if isinstance(item, dict):
            for name in required:
                if item.get(name) in (None, "", []):
                    raise InputError("Required value", path=f"{where}.{name}")
            yield item, where


def _converted(spec: Values, kind: str) -> Values:
    if kind == "ClusterQueue":
        if "cohort" in spec:
            spec["cohortName"] = spec.pop("cohort")
        if checks := spec.pop("admissionChecks", None):
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        if isinstance(fungibility := spec.get("flavorFungibility"), dict):
            spec["flavorFungibility"] = {
                key: STOP if (key, text) in _STOPS else text for key, text in fungibility.items()
            }
    elif kind == "Workload":
        source, name = spec.pop("priorityClassSource", ""), spec.pop("priorityClassName", "")
        if source in _CLASSES:
            group, class_kind = _CLASSES[source]
            spec["priorityClassRef"] = {"group": group, "kind": class_kind, "name": name}
    return spec
