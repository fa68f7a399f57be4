"""Creates and changes objects: manifests as ``kubectl apply`` does, objects as ``kubectl replace``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from msgspec.structs import replace

from moorage.arguments import naming
from moorage.controllers.cluster_controllers import ClusterControllers
from moorage.controllers.store_control import admission_of
from moorage.errors import InputError
from moorage.kube import Namespace, Object, ObjectMeta, Pod
from moorage.kube.admission.chain import is_new
from moorage.kube.apiserver.apply_manifest import with_last_applied
from moorage.kube.apiserver.overlay import key_of
from moorage.kube.apiserver.refusals import STORED, Origin, Refusals, refused_versions
from moorage.kube.model.workload import MAX_PODS, Job, PriorityClass
from moorage.kube.read.cluster_builder import complete
from moorage.kube.read.object_defaults import default_namespace
from moorage.kube.read.python_values import Source, is_single
from moorage.kube.read.read_objects import read_objects
from moorage.kube.releases import DEFAULT
from moorage.kube.workloads.ownership import Names
from moorage.store import ObjectClient, find_object

from .change import Change, with_own_uids

Check = Callable[[Object], None]


def apply(
    client: ObjectClient,
    controllers: ClusterControllers | None,
    what: Source | Iterable[Source],
    check: Check | None = None,
    release: str = DEFAULT,
) -> Change:
    """Create or change objects: see `Scheduler.apply`.

    Parameters
    ----------
    controllers : ClusterControllers or None
        Those of the store, which make the claims of new pods; None where others run them.
    check : callable, optional
        Raises an InputError about an object that is valid otherwise.
    release : str
        That of the API server.
    """
    created, changed, admission = list[Object](), [], None
    with naming("what"):
        completed = _completed(client, what, check, release)
    for given, obj in zip(completed, with_own_uids(client, completed), strict=True):
        _check_parallelism(obj)
        current = find_object(client, type(obj), obj.name, obj.namespace)
        if current is None:
            admission = admission or admission_of(client)
            if not isinstance(obj, Pod):
                admission.admit_object(obj)
            elif isinstance(given, Pod) and is_new(given):
                obj = admission.admit(obj)
            created.append(client.create(obj))
            continue
        kept = current.metadata
        meta = replace(
            obj.metadata,
            uid=kept.uid,
            resource_version="",
            deletion_timestamp=kept.deletion_timestamp,
            deletion_grace_period_seconds=kept.deletion_grace_period_seconds,
        )
        stored = client.update(replace(obj, metadata=meta))
        if stored.metadata.resource_version != kept.resource_version:
            changed.append(stored.full_name)
    if controllers is not None:  # last, as the claims may be among the objects
        for pod in created:
            if isinstance(pod, Pod):
                controllers.control.create_claims(pod)
    return Change(created=tuple(obj.full_name for obj in created), changed=tuple(changed))


def _completed(
    client: ObjectClient,
    what: Source | Iterable[Source],
    check: Check | None,
    release: str,
) -> Sequence[Object]:
    """Return valid objects with defaults, after the namespaces that they imply."""
    items: list[Any] = [what] if is_single(what) else list(cast("Iterable[Source]", what))
    given = [item for item in items if isinstance(item, Object)]
    read = read_objects(*[item for item in items if not isinstance(item, Object)], all_texts=True)
    unserved, _ = read.fields.judge(STORED, lambda: release)
    unserved += refused_versions(read.ended, STORED, lambda: release)
    for refused in [*read.refused, *(refused for _, refused in unserved)]:
        raise InputError(refused.message, source=refused.source, obj=f"{refused.kind} {refused.name}")
    classes: list[PriorityClass] = client.list(PriorityClass)[0]
    named = _named(client, [*read.objects, *given])
    stored = _stored(client, named)
    origins = [*[Origin(argument=STORED)] * len(stored), *read.origins, *[Origin(argument=-1)] * len(given)]
    texts = {at + len(stored): text for at, text in read.texts.items()}
    known = set(map(key_of, stored))
    objects = [
        obj if key_of(obj) in known else with_last_applied(obj, read.texts[at])
        for at, obj in enumerate(named[: len(read.objects)])
    ]
    refusals = Refusals(STORED, check, keeps_priority=True)
    completed = complete(
        [*stored, *objects, *named[len(read.objects) :]], origins, classes, texts=texts, refusals=refusals
    )
    left_out = [entry for entry in completed.left_out if entry.group != "batch"]  # Jobs wait in their queues
    if left_out:
        first = left_out[0]
        message = "is not simulated" if first.is_known else first.why.removeprefix("but ")
        raise InputError(message, obj=f"{first.kind} {first.key}")
    objects = completed.objects
    namespaces = [obj for obj in (*client.list(Namespace)[0], *objects) if isinstance(obj, Namespace)]
    present = {namespace.name for namespace in namespaces}
    implied = dict.fromkeys(obj.namespace for obj in objects if obj.namespace not in ("", *present))
    implied_objects = complete([Namespace(metadata=ObjectMeta(name=name)) for name in implied]).objects
    return [*implied_objects, *objects]


def _named(client: ObjectClient, objects: Sequence[Object]) -> list[Object]:
    """Return objects, those with a ``generateName`` alone under a name that neither the store nor another
    object has: each is a new object."""
    names, with_names = Names(), list[Object]()
    for obj in objects:
        names.take(obj.kind, default_namespace(obj), obj.name)
    for obj in objects:
        meta, namespace = obj.metadata, default_namespace(obj)
        while not obj.name and meta.generate_name:
            name = names.generate(obj.kind, namespace, meta.generate_name)
            if find_object(client, type(obj), name, namespace) is None:
                obj = replace(obj, metadata=replace(meta, name=name))
        with_names.append(obj)
    return with_names


def _stored(client: ObjectClient, objects: Sequence[Object]) -> list[Object]:
    """Return the objects of a store that have the names of others."""
    by_key: dict[str, Object] = {}
    for obj in objects:
        if (stored := find_object(client, type(obj), obj.name, default_namespace(obj))) is not None:
            by_key[key_of(obj)] = stored
    return list(by_key.values())


def _check_parallelism(obj: Object) -> None:
    if isinstance(obj, Job) and (obj.spec.parallelism or 0) > MAX_PODS:
        message = f"must be at most {MAX_PODS}, not {obj.spec.parallelism}"
        raise InputError(message, obj=obj.full_name, path="spec.parallelism")
