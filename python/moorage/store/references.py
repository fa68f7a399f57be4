"""References to objects in kubectl's form: ``deploy/web``, ``pod/prod/web-1``, ``node/n1``."""

from __future__ import annotations

from functools import cache

from moorage.errors import InputError, nearest, shorten
from moorage.kube import Object
from moorage.kube.resource_names import plural

from .kinds import is_namespaced, structs

_SHORT = {
    "cj": "CronJob", "clone": "CloneSet", "cm": "ConfigMap", "dc": "DeploymentConfig", "deploy": "Deployment",
    "ds": "DaemonSet", "hpa": "HorizontalPodAutoscaler", "lws": "LeaderWorkerSet", "no": "Node",
    "ns": "Namespace", "pc": "PriorityClass", "pdb": "PodDisruptionBudget", "po": "Pod",
    "pv": "PersistentVolume", "pvc": "PersistentVolumeClaim", "rc": "ReplicationController",
    "rs": "ReplicaSet", "sc": "StorageClass",
    "so": "ScaledObject", "sts": "StatefulSet", "svc": "Service", "vpa": "VerticalPodAutoscaler",
}  # fmt: skip


@cache
def _kinds() -> dict[str, type[Object]]:
    """Kinds by the names that kubectl accepts, in small letters."""
    kinds: dict[str, type[Object]] = {}
    for struct in structs():
        for name in (struct.__name__.lower(), plural(struct)):
            kinds.setdefault(name, struct)
    short = {name: kinds[kind.lower()] for name, kind in _SHORT.items() if kind.lower() in kinds}
    return kinds | short


def kind_named(text: str) -> type[Object]:
    """Return the struct of a kind by a name that kubectl accepts.

    Parameters
    ----------
    text : str
        Singular, plural or short name, in any case, with the API group or without: ``deployment``, ``pods``,
        ``sts``, ``deployments.apps``.

    Raises
    ------
    InputError
        There is no such kind.
    """
    name, _, group = text.lower().partition(".")
    struct = _kinds().get(name)
    if struct is None or (group and struct().api_version.partition("/")[0] != group):
        raise InputError(f'there is no kind "{shorten(text, 80)}"{nearest(name, _kinds())}')
    return struct


def parse_reference(text: str) -> tuple[type[Object], str, str]:
    """Parse a reference to an object.

    Parameters
    ----------
    text : str
        ``KIND/NAME``, or ``KIND/NAMESPACE/NAME``; without a namespace it is ``default``.

    Returns
    -------
    kind : type
        The struct of the kind.
    namespace : str
        "" for kinds without namespaces.

    Raises
    ------
    InputError
        The reference is malformed, or there is no such kind.
    """
    kind, _, rest = text.partition("/")
    parts = rest.split("/")
    if not (kind and all(parts)) or len(parts) > 2:
        message = f'"{shorten(text, 80)}" is not a reference such as deploy/web or pod/NAMESPACE/NAME'
        raise InputError(message)
    struct = kind_named(kind)
    if not is_namespaced(struct):
        if len(parts) > 1:
            raise InputError(f'"{shorten(text, 80)}": a {struct.__name__} has no namespace')
        return struct, "", parts[0]
    return struct, parts[0] if len(parts) > 1 else "default", parts[-1]
