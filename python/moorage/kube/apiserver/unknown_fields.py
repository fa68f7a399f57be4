"""Finds kinds, versions and fields that Kubernetes does not have: in no release from v1.34 to v1.37, as
clusters of all are read, or in the one that decides. The table is field_names.json; those of Karpenter's
kinds are in its schemas, those of kinds of other projects in kueue_fields.json and workload_fields.json.
"""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

import msgspec

from moorage.errors import InputError, shorten

from ..model.workload import KUEUE

LISTS, MAPS = "[]", "{}"
ANY, EVERY = "any", "every"
"""In place of a release: a field is known if any, or if every one, has it."""
KARPENTER = (
    *("karpenter.sh/v1/NodeClaim", "karpenter.sh/v1/NodePool", "karpenter.sh/v1alpha1/NodeOverlay"),
    "autoscaling.x-k8s.io/v1beta1/CapacityBuffer",
    *("karpenter.k8s.aws/v1/EC2NodeClass", "karpenter.k8s.gcp/v1alpha1/GCENodeClass"),
    *("karpenter.azure.com/v1beta1/AKSNodeClass", "karpenter.azure.com/v1alpha2/AKSNodeClass"),
)
"""Kinds whose fields and rules are those of CustomResourceDefinitions: see `custom_schemas`."""
Path = tuple[str | int, ...]
"""Field names, keys and indices from an object to a field."""
_PAST: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("v1",), ("APIGroup", "APIVersions", "Config", "DeleteOptions", "WatchEvent")),
    "admissionregistration.k8s.io": (
        ("v1alpha1", "v1beta1"),
        ("InitializerConfiguration", "ExternalAdmissionHookConfiguration"),
    ),
    "apiextensions.k8s.io": (("v1beta1",), ()),
    "apiregistration.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "apps": (("v1alpha1", "v1beta1", "v1beta2"), ("PetSet", "DeploymentRollback", "Scale")),
    "authentication.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "authorization.k8s.io": (("v1beta1",), ()),
    "autoscaling": (("v2alpha1", "v2beta1", "v2beta2"), ()),
    "batch": (("v1beta1", "v2alpha1"), ("ScheduledJob",)),
    "certificates.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "coordination.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "discovery.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "events.k8s.io": (("v1beta1",), ()),
    "extensions": (
        ("v1beta1",),
        (
            *("DaemonSet", "Deployment", "DeploymentRollback", "HorizontalPodAutoscaler", "Ingress", "Job"),
            *("NetworkPolicy", "PodSecurityPolicy", "ReplicaSet", "Scale", "ThirdPartyResource"),
        ),
    ),
    "flowcontrol.apiserver.k8s.io": (("v1alpha1", "v1beta1", "v1beta2", "v1beta3"), ()),
    "networking.k8s.io": (("v1alpha1", "v1beta1"), ("ClusterCIDR",)),
    "node.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "policy": (("v1alpha1", "v1beta1"), ("PodSecurityPolicy",)),
    "rbac.authorization.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "resource.k8s.io": (
        ("v1alpha1", "v1alpha2", "v1alpha3"),
        (
            *("PodScheduling", "PodSchedulingContext", "ResourceClass"),
            *("ResourceClaimParameters", "ResourceClassParameters"),
        ),
    ),
    "scheduling.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "storage.k8s.io": (("v1alpha1", "v1beta1"), ()),
    "storagemigration.k8s.io": (("v1alpha1",), ()),
}
"""By API group, versions that only earlier releases served, and kinds that only these versions have. In the
core group: what API servers and kubectl write that are no objects."""
_WITHOUT_PAST = ("PodGroup", "CompositePodGroup")
"""Kinds that are younger than the versions of their group that ended."""
_KARPENTER_PAST = {
    "karpenter.sh/v1beta1/NodePool": "karpenter.sh/v1, where nodeClassRef has group in place of apiVersion, "
    "consolidationPolicy WhenUnderutilized is WhenEmptyOrUnderutilized, spec.disruption.expireAfter is "
    "spec.template.spec.expireAfter, and spec.template.spec.kubelet is a field of the node class",
    "karpenter.sh/v1beta1/NodeClaim": "karpenter.sh/v1, where nodeClassRef has group in place of apiVersion, "
    "and spec.kubelet is a field of the node class",
    "karpenter.sh/v1alpha5/Provisioner": "a NodePool of karpenter.sh/v1, where requirements, taints and "
    "startupTaints are in spec.template.spec, labels and annotations in spec.template.metadata, providerRef "
    "is spec.template.spec.nodeClassRef, limits.resources is spec.limits, ttlSecondsUntilExpired is "
    "spec.template.spec.expireAfter, and consolidation and ttlSecondsAfterEmpty are "
    "spec.disruption.consolidationPolicy and consolidateAfter",
    "karpenter.sh/v1alpha5/Machine": "a NodeClaim of karpenter.sh/v1, which Karpenter makes",
}
"""Kinds and versions of Karpenter before 1.0, and what stands for them now (its v1 migration)."""
_ALIKE = (1.0, 0.85, 0.6)
"""How alike a kind is that an error proposes: of that name, misspelt, at last somewhat like it."""


class _Table(msgspec.Struct):
    """Kinds with their structs, structs with their fields, and the releases of fields that some lack.

    The value of a field is the name of its struct, followed by ``[]`` for a list and ``{}`` for a map of
    structs; "" for a field without structs. Its releases are the first and the last one; "" if it has not
    ended.
    """

    kinds: dict[str, str]
    structs: dict[str, dict[str, str]]
    releases: dict[str, dict[str, tuple[str, str]]]


@cache
def _table() -> _Table:
    text = pathlib.Path(__file__).with_name("field_names.json").read_bytes()
    table = msgspec.json.decode(text, type=_Table)
    table.kinds |= {kind: kind for kind in KARPENTER}
    return table


class _Fields(msgspec.Struct):
    structs: dict[str, dict[str, str]]


_OF_PROJECTS = {
    KUEUE: "kueue_fields.json",
    **dict.fromkeys(("argoproj.io", "apps.kruise.io", "leaderworkerset.x-k8s.io"), "workload_fields.json"),
}
"""The files of the structs of kinds of other projects that people write, by API group."""


@cache
def _of_project(group: str) -> dict[str, dict[str, str]]:
    """The structs of the kinds of a group; those of the kinds have the names of these."""
    if group not in _OF_PROJECTS:
        return {}
    text = pathlib.Path(__file__).with_name(_OF_PROJECTS[group]).read_bytes()
    return msgspec.json.decode(text, type=_Fields).structs


def checked_struct(kind: str, api_version: str) -> str:
    """Return the name of the struct of a kind; "" for one whose fields are not known."""
    name = f"{api_version}/{kind}"
    return name if name in _of_project(api_version.partition("/")[0]) else struct_of(kind, api_version)


@cache
def struct_of(kind: str, api_version: str) -> str:
    """Return the name of the struct of a built-in kind; "" for a kind that is not built in.

    Parameters
    ----------
    api_version : str
        ``group/version``. A version that the table does not have stands for the newest one of its group.
    """
    kinds = _table().kinds
    if (exact := f"{api_version}/{kind}") in kinds:
        return kinds[exact]
    others = _names((api_version.rpartition("/")[0],), kind)
    return kinds[others[0]] if others else ""


def fields_of(struct: str) -> dict[str, str]:
    """Return the fields of a struct, each with the name of its struct.

    Parameters
    ----------
    struct : str
        Name of the struct, such as ``core.v1.PodSpec``.

    Returns
    -------
    dict of str to str
        The name is followed by ``[]`` for a list and ``{}`` for a map of structs; "" for other fields.
    """
    known = _table().structs.get(struct) or _of_project(struct.partition("/")[0]).get(struct)
    if known is None:
        from .custom_schemas import struct_fields  # few clusters have Karpenter

        known = struct_fields(struct)
    return known


def has_version(kind: str, api_version: str) -> bool:
    """Whether the table of fields has a version of a kind."""
    return f"{api_version}/{kind}" in _table().kinds


def is_before_karpenter_1(kind: str, api_version: str) -> bool:
    """Whether a kind is one that Karpenter 1.0 has ended."""
    return f"{api_version}/{kind}" in _KARPENTER_PAST


@cache
def check_kind(kind: str, api_version: str) -> None:
    """Refuse a kind or a version of Kubernetes' own API groups that no release has served.

    What ended passes: dumps of old clusters and old manifests have it. Groups of others pass, too; they have
    a dot, as the group of a CustomResourceDefinition must.

    Parameters
    ----------
    kind, api_version : str
        Without a version, only a kind that is misspelt is refused, since any group may have the others.

    Raises
    ------
    InputError
        It does not exist; names what to write. The text is kubectl's.
    """
    group, _, version = api_version.rpartition("/")
    groups = {*map(_group, _table().kinds), *_PAST}
    if ("." in group and group not in groups) or kind.endswith("List"):
        return
    known = _names((group,) if version else groups, kind)
    versions, kinds = _PAST.get(group, ((), ()))
    past = () if kind in _WITHOUT_PAST else versions
    is_past = version in past and bool(known or kind in kinds)
    if is_past or (f"{api_version}/{kind}" in known if version else known):
        return
    where = f' in version "{shorten(api_version)}"' if version else ""
    text = f'no matches for kind "{shorten(kind)}"{where}'
    if way := _KARPENTER_PAST.get(f"{api_version}/{kind}"):
        raise InputError(f"{text}, which Karpenter 1.0 ended; write {way}", path="apiVersion")
    if known:
        raise InputError(f"{text}; write {known[0].rpartition('/')[0]}", path="apiVersion")
    if kind == "DeschedulerPolicy":
        hint = "no object; moorage does not run the descheduler, and --drain says where evicted pods would go"
        raise InputError(f"{text}: it is {hint}", path="kind")
    proposal = _proposal(kind, group, groups, _ALIKE if version else _ALIKE[:2])
    if version or proposal:
        raise InputError(text + proposal, path="kind")


def _proposal(kind: str, group: str, groups: Collection[str], ratios: Sequence[float]) -> str:
    """Return a question that names the built-in kind that is most like one; "" if none is."""
    from difflib import get_close_matches  # only errors need it

    for ratio, within in product(ratios, ((group,), groups)):
        names = {name.rpartition("/")[2].casefold(): name for name in reversed(_names(within))}
        if matches := get_close_matches(kind.casefold(), names, 1, ratio):
            version, _, right = names[matches[0]].rpartition("/")
            of = "" if _group(names[matches[0]]) == group else f" of {version}"
            return f"; did you mean {right}{of}?"
    return ""


def newest_version(kind: str) -> str:
    """Return the newest version of a kind of Kubernetes' own API groups; "" for other kinds."""
    known = _names({*map(_group, _table().kinds)}, kind)
    return known[0].rpartition("/")[0] if known else ""


def _names(groups: Collection[str], kind: str = "") -> list[str]:
    """Return the names in the table of a kind, or of all, in API groups, the newest version first."""
    names = [name for name in _table().kinds if _group(name) in groups]
    return sorted((name for name in names if name.rpartition("/")[2] == kind or not kind), key=_age)


def _group(name: str) -> str:
    return name.rpartition("/")[0].rpartition("/")[0]


def _age(name: str) -> tuple[bool, bool, str]:
    """Sort key of versions: v1 comes before v1beta2 and v1alpha1."""
    version = name.split("/")[-2]
    return "alpha" in version, "beta" in version, version


def has_only_known_fields(text: bytes | msgspec.Raw, struct: str) -> bool:
    """Whether every release knows all fields of an object; faster than `unknown_fields` where it does.

    Parameters
    ----------
    struct : str
        Name of the struct, from `struct_of`.

    Returns
    -------
    bool
        False also for a text that has no JSON value or values of wrong types.
    """
    try:
        _decoder(struct).decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


@cache
def _decoder(struct: str) -> msgspec.json.Decoder[Any]:
    """A decoder that refuses unknown fields; it leaves fields without structs undecoded."""
    return msgspec.json.Decoder(_strict(struct))


@cache
def _strict(struct: str) -> Any:
    fields: list[tuple[str, Any, Any]] = []
    fields_of_all = [field for field in fields_of(struct).items() if _is_known(struct, field[0], EVERY)]
    names = {f"field_{number}": field for number, field in enumerate(fields_of_all)}
    for attribute, (_, target) in names.items():
        type_: Any = _strict(target.rstrip(LISTS + MAPS)) if target else msgspec.Raw
        if target.endswith(LISTS):
            type_ = list[type_]
        elif target.endswith(MAPS):
            type_ = dict[str, type_]
        fields.append((attribute, type_ | None if target else type_, None if target else msgspec.Raw()))
    renamed = {attribute: field for attribute, (field, _) in names.items()}
    return msgspec.defstruct("Strict", fields, rename=renamed, forbid_unknown_fields=True, gc=False)


def unknown_fields(value: Any, struct: str, release: str = ANY) -> list[Path]:
    """Return the fields of an object that its struct does not have, in the order of sorted names.

    Parameters
    ----------
    value : object
        A JSON value; only maps have fields.
    struct : str
        Name of the struct, from `struct_of`.
    release : str
        The release that has to know them, such as "1.36", `ANY` or `EVERY`.
    """
    paths: list[Path] = []
    _collect(value, struct, release, (), paths)
    return sorted(paths)  # siblings are all names or all indices


def _is_known(struct: str, field: str, release: str) -> bool:
    """Whether a release knows a field that the table has."""
    span = _table().releases.get(struct, {}).get(field)
    if span is None or release == ANY:
        return True
    first, last = span
    return release != EVERY and first <= release <= (last or release)


def _collect(value: Any, struct: str, release: str, path: Path, paths: list[Path]) -> None:
    if not isinstance(value, dict):
        return
    known = fields_of(struct)
    for name, item in value.items():
        target = known.get(name)
        if target is None or not _is_known(struct, name, release):
            paths.append((*path, name))
        elif target and item:
            for key, part in _parts(item, target[-2:]):
                _collect(part, target.rstrip(LISTS + MAPS), release, (*path, name, *key), paths)


def _parts(value: Any, form: str) -> Iterator[tuple[Path, Any]]:
    """The structs of a field's value with their keys or indices."""
    if form == LISTS:
        if isinstance(value, list):
            yield from (((at,), item) for at, item in enumerate(value))
    elif form == MAPS:
        if isinstance(value, dict):
            yield from (((key,), item) for key, item in value.items())
    else:
        yield (), value


def known_at(struct: str, path: Iterable[str | int]) -> set[str]:
    """Return the fields of what stands at a path of a struct."""
    for part in path:
        if target := fields_of(struct).get(str(part)):  # else an index, or the key of a map
            struct = target.rstrip(LISTS + MAPS)
    return {*fields_of(struct)}


def path_text(path: Iterable[str | int]) -> str:
    """Return a path as the API server writes it, such as ``spec.containers[0].image``.

    Parameters
    ----------
    path : iterable of str or int
        Field names, keys and indices.
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
