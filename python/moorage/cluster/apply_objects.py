"""Creates and changes objects: manifests as ``kubectl apply`` does, objects as ``kubectl replace``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from moorage.arguments import naming
from moorage.controllers.api_server import existing_in, policies_of
from moorage.controllers.cluster_controllers import ClusterControllers
from moorage.errors import InputError
from moorage.kube import Namespace, Object, Pod
from moorage.kube.apiserver.apply_manifest import with_last_applied
from moorage.kube.apiserver.overlay import key_of
from moorage.kube.apiserver.refusals import STORED, Origin, Refusals
from moorage.kube.model.cluster import Cluster, RequestedObject, Suspended
from moorage.kube.model.workload import MAX_PODS, WORKLOADS, Job
from moorage.kube.read.change_cluster import ClusterChange
from moorage.kube.read.cluster_builder import check_namespaces, is_single, known_namespaces
from moorage.kube.read.object_defaults import default_namespace
from moorage.kube.read.python_values import Source
from moorage.kube.read.python_values import is_single as is_one
from moorage.kube.read.read_objects import read_objects
from moorage.kube.releases import DEFAULT_GATES, FeatureGates
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, ObjectStore, find_object

from .change import Change, with_own_uids

Check = Callable[[Object], None]


class Written(NamedTuple):
    """What a change has written to a store.

    Attributes
    ----------
    created, changed : list of Object
    in_turn : list of (Pod, float)
        Pods that controllers create among those of workloads, each with its turn (see `take_turns`).
    """

    created: list[Object]
    changed: list[Object]
    in_turn: list[tuple[Pod, float]]


def write_objects(
    client: ObjectClient, objects: Sequence[tuple[Object | None, Object]], has_turns: bool
) -> Written:
    """Create and change objects; what others have changed of them meanwhile stays.

    Parameters
    ----------
    objects : sequence of (Object or None, Object)
        See `AppliedChange`.
    has_turns : bool
        Whether controllers create new single pods.
    """
    written, turn = Written([], [], []), 0.5
    for old, new in objects:
        current = find_object(client, type(new), new.name, new.namespace)
        if current is None and has_turns and isinstance(new, Pod) and is_single(new):
            written.in_turn.append((new, turn))
            continue
        if current is None:
            stored = client.create(new)
            written.created.append(stored)
        else:
            stored = _changed(client, current, new if old is None else rebased(old, new, current))
            written.changed.extend([stored] if stored is not current else [])
        if isinstance(stored, WORKLOADS):
            turn = int(stored.metadata.resource_version) + 0.5
    return written


def _changed(client: ObjectClient, current: Object, new: Object) -> Object:
    """Replace an object; return the stored one, or `current` where nothing changes."""
    kept = current.metadata
    meta = structs.replace(
        new.metadata,
        uid=kept.uid,
        resource_version="",
        deletion_timestamp=kept.deletion_timestamp,
        deletion_grace_period_seconds=kept.deletion_grace_period_seconds,
    )
    stored = client.update(structs.replace(new, metadata=meta))
    return current if stored.metadata.resource_version == kept.resource_version else stored


def rebased(old: Any, new: Any, current: Any) -> Any:
    """Return a value as it is now, with what differs between two others.

    Parameters
    ----------
    old, new, current : object
        A struct before a change, after it, and as others have changed it meanwhile.
    """
    if old is current or not isinstance(old, Struct) or not type(old) is type(new) is type(current):
        return current if old == new else new
    parts = {
        name: rebased(*(getattr(each, name) for each in (old, new, current)))
        for name in old.__struct_fields__
    }
    return structs.replace(current, **parts)


def apply(
    client: ObjectClient,
    controllers: ClusterControllers | None,
    what: Source | Iterable[Source],
    check: Check | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> Change:
    """Create or change objects: see `ClusterChanges.apply`.

    Parameters
    ----------
    controllers : ClusterControllers or None
        Those of the store; None where others run them.
    check : callable, optional
        Raises an InputError about an object that is valid otherwise.
    gates : FeatureGates
        Those of the API server, with its release.
    """
    with naming("what"):
        pairs, suspended, notes = _applied(client, what, check, gates)
    has_turns = controllers is not None and any(isinstance(new, WORKLOADS) for _, new in pairs)
    known = {} if controllers is None else {each.text: each for each in controllers.suspended}
    for each in suspended:
        if (old := known.get(each.text)) is not None:
            _check_held(client, old, each, gates)
        known[each.text] = each
    written = write_objects(client, pairs, has_turns)
    if controllers is not None:
        if suspended:
            controllers.suspended = tuple(known.values())
        controllers.take_turns(written.in_turn)
        for pod in written.created:  # last, as the claims may be among the objects
            if isinstance(pod, Pod):
                controllers.control.create_claims(pod)
    created = [*written.created, *(pod for pod, _ in written.in_turn)]
    return Change(
        created=tuple(obj.full_name for obj in created),
        changed=tuple(obj.full_name for obj in written.changed),
        notes=notes,
    )


def _check_held(client: ObjectClient, old: Suspended, new: Suspended, gates: FeatureGates) -> None:
    """Refuse a change of a workload of another project that its webhook refuses.

    Raises
    ------
    InputError
        It may not change so.
    """
    from moorage.kube.admission.rules.update_rules import update_causes  # few change such workloads

    states = [msgspec.json.decode(each.source.document) if each.source else {} for each in (old, new)]
    running = (
        find_object(client, type(each), each.name, each.namespace) for each in old.objects if each.name
    )
    if all(each is None for each in running):  # nothing runs of it
        states[0].setdefault("spec", {})["suspend"] = True
    if causes := update_causes(states[0], states[1], gates):
        raise InputError(causes[0].text, obj=f"{old.full_kind} {old.key}", path=causes[0].field)


class _StoreChange(ClusterChange):
    """Applies manifests and other objects to those of a store."""

    def __init__(self, client: ObjectClient, refusals: Refusals) -> None:
        self._client = client
        policies = policies_of(client)
        namespaces = [obj for obj in policies if isinstance(obj, Namespace)]
        others = [obj for obj in policies if not isinstance(obj, Namespace)]
        if isinstance(client, ObjectStore) and client.has_kind("LocalQueue"):
            others += client.list("LocalQueue")[0]
        super().__init__(
            Cluster(namespaces=namespaces, others=others), refusals, existing=existing_in(client)
        )

    def _all(self, kind: type[Object]) -> Sequence[Object]:
        return self._client.list(kind)[0]

    def stored(self, objects: Iterable[Object]) -> list[Object]:
        """Return the objects of the store that have the names of others."""
        named = {key_of(obj): obj for obj in objects if obj.name}.values()
        stored = (find_object(self._client, type(obj), obj.name, default_namespace(obj)) for obj in named)
        return [obj for obj in stored if obj is not None]


def _applied(
    client: ObjectClient, what: Source | Iterable[Source], check: Check | None, gates: FeatureGates
) -> tuple[list[tuple[Object | None, Object]], list[Suspended], tuple[str, ...]]:
    """Return the objects to write, each with the one that is stored; the workloads of other projects that are
    suspended; and what a server warns of."""
    from moorage.kube.admission.stored.strategy_warnings import warnings_of_change  # of those that apply

    items: list[Any] = [what] if is_one(what) else list(cast("Iterable[Source]", what))
    given = [item for item in items if isinstance(item, Object)]
    read = read_objects(*[item for item in items if not isinstance(item, Object)], all_texts=True)
    unserved, _ = read.fields.judge(read.ended, STORED, lambda: gates.release.version)
    for refused in [*read.refused, *(refused for _, refused in unserved)]:
        raise InputError(refused.message, source=refused.source, obj=f"{refused.kind} {refused.name}")
    change = _StoreChange(client, Refusals(STORED, check, lambda _: gates))
    known = set(map(key_of, change.stored(read.objects)))
    objects = [
        obj if obj.name and key_of(obj) in known else with_last_applied(obj, read.texts[at])
        for at, obj in enumerate(read.objects)
    ]
    origins = [*read.origins, *[Origin(argument=-1)] * len(given)]
    new, old, completed, new_pods = change.apply([*objects, *given], origins, read.texts)
    for entry in completed.left_out:
        if entry.group != "batch":  # Jobs wait in their queues
            message = "is not simulated" if entry.is_known else entry.why.removeprefix("but ")
            raise InputError(message, obj=f"{entry.kind} {entry.key}")
    spaces: list[Namespace] = client.list(Namespace)[0]
    if known_spaces := known_namespaces(spaces):
        own = {obj.name for obj in (*objects, *given) if isinstance(obj, Namespace)}
        check_namespaces(read.objects, read.origins, known_spaces | own, Refusals(STORED))
    for refusal in new_pods.refused:
        raise InputError(refusal.message)
    for obj in new:
        if isinstance(obj, Job) and (obj.spec.parallelism or 0) > MAX_PODS:
            message = f"must be at most {MAX_PODS}, not {obj.spec.parallelism}"
            raise InputError(message, obj=obj.full_name, path="spec.parallelism")
    sent = ((read.objects[at], read.origins[at].source, text) for at, text in read.texts.items())
    requests = [
        RequestedObject(source, text, default_namespace(obj), key_of(obj) not in known)
        for obj, source, text in sent
    ]
    pairs = [(old.get(key_of(obj)), obj) for obj in with_own_uids(client, new)]
    return pairs, completed.suspended, tuple(warnings_of_change(requests, gates, pairs))
