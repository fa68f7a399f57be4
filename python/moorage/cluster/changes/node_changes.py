"""Adds, removes, taints and labels nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from moorage.errors import InputError, located, shorten
from moorage.kube import CSINode, Node, NodeClaim, Object, Pod, Taint
from moorage.kube.apiserver.validate_object import validate
from moorage.kube.model.node import EFFECTS, HOSTNAME
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.read.object_defaults import defaults
from moorage.store import NotFoundError, ObjectClient, find_object

from .change import Change, full_name, with_own_uids
from .node_copies import NodeCopies, slices_of

MAX_NODES = 200_000
"""The most nodes that one call adds."""
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>\w+))?(?P<minus>-)?")


def add_copies(
    client: ObjectClient, count: int, like: Node, labels: Mapping[str, str], is_template: bool
) -> Change:
    """Create copies of a node: see `Scheduler.add_nodes`.

    Parameters
    ----------
    labels : mapping of str to str
        Of the copies, besides those of the node.
    is_template : bool
        Whether `like` is no node of the cluster.

    Raises
    ------
    InputError
        The count is out of range, or the node is invalid.
    """
    if not 0 <= count <= MAX_NODES:
        raise InputError(f"{count} nodes to add: must be between 0 and {MAX_NODES}")
    if HOSTNAME in labels:
        raise InputError(f"the label {HOSTNAME} of a new node is its name")
    base = like.metadata.name or like.metadata.generate_name.rstrip("-.") or "node"
    names, copies, new = _new_names(client, base), NodeCopies(client), list[Object]()
    for _ in range(count):
        copy = copies.copy(like, next(names), labels)
        for obj in (copy, *(() if is_template else copies.parts(like, copy))):
            validate(obj)
            new += defaults([obj])
    created = tuple([full_name(client.create(obj)) for obj in with_own_uids(client, new)])
    return Change(created=created, notes=tuple(copies.doubts(like, labels)) if count else ())


def _new_names(client: ObjectClient, base: str) -> Iterator[str]:
    """Yield names that no node has: the base and a number."""
    taken = {node.name for node in client.list(Node)[0]}
    number = 0
    while True:
        number += 1
        suffix = f"-{number}"
        name = base[: 63 - len(suffix)].rstrip("-.") + suffix  # it is the value of a label, too
        if name not in taken:
            yield name


def _parts_of(client: ObjectClient, node: str) -> Iterator[CSINode | ResourceSlice]:
    """Yield the objects that describe a node besides its Node."""
    if (csi_node := find_object(client, CSINode, node)) is not None:
        yield csi_node
    yield from slices_of(client.list(ResourceSlice)[0], node)


def delete_nodes(client: ObjectClient, nodes: Sequence[Node], pods: Iterable[Pod]) -> Change:
    """Delete nodes with the objects that describe them and the pods on them.

    Parameters
    ----------
    pods : iterable of Pod
        The pods on the nodes.
    """
    deleted: list[str] = []
    for node in nodes:
        gone = [node, *_parts_of(client, node.name), *_claims_of(client, node)]
        for obj in gone:
            if (
                obj.metadata.finalizers
            ):  # of Karpenter or k3s, whose controllers take them off once it is gone
                client.update(replace(obj, metadata=replace(obj.metadata, finalizers=())))
            with suppress(NotFoundError):  # it was being deleted, and only its finalizers kept it
                deleted.append(_delete(client, obj))
    for pod in pods:
        with suppress(NotFoundError):  # a replica without an object, or deleted with its node
            deleted.append(_delete(client, pod))
    return Change(deleted=tuple(deleted))


def _claims_of(client: ObjectClient, node: Node) -> list[NodeClaim]:
    """The claim of a node, which Karpenter deletes with it."""
    claims: list[NodeClaim] = client.list(NodeClaim)[0]
    return [one for one in claims if node.name == one.status.node_name]


def _delete(client: ObjectClient, obj: Object) -> str:
    client.delete(type(obj), obj.name, obj.namespace)
    return full_name(obj)


# ---- taints ------------------------------------------------------------------------------------------------


def tainted(node: Node, changes: Sequence[str]) -> Node:
    """Return a node with changed taints: see `Scheduler.taint`.

    Raises
    ------
    InputError
        A change is malformed, or removes a taint that is not there.
    """
    taints = list(node.spec.taints)
    for change in changes:
        match = _TAINT.fullmatch(change)
        if match is None:
            raise InputError(f'taint "{shorten(change, 80)}" is not KEY=VALUE:EFFECT, KEY:EFFECT- or KEY-')
        key, effect = match["key"], match["effect"] or ""
        if match["minus"] or (key.endswith("-") and not effect and match["value"] is None):
            taints = _removed(taints, key.removesuffix("-"), effect)
        else:
            new = Taint(key=key, value=match["value"] or "", effect=effect)
            with located(obj=f"taint {shorten(change, 80)}"):
                _check_taint(new)
            same = [at for at, one in enumerate(taints) if (one.key, one.effect) == (key, effect)]
            at = same[0] if same else len(taints)
            taints[at : at + 1] = [new]
    return replace(node, spec=replace(node.spec, taints=tuple(taints)))


def _check_taint(taint: Taint) -> None:
    if taint.effect not in EFFECTS:
        raise InputError(f'effect must be one of {", ".join(EFFECTS)}, not "{taint.effect}"')
    taint.check()


def _removed(taints: Sequence[Taint], key: str, effect: str) -> list[Taint]:
    """Return the taints without those of a key, and of an effect unless it is empty."""
    left = [taint for taint in taints if taint.key != key or effect not in ("", taint.effect)]
    if len(left) == len(taints):
        raise InputError(f'taint "{shorten(key, 80)}{f":{effect}" if effect else ""}" not found')
    return left


# ---- labels ------------------------------------------------------------------------------------------------


def labelled(obj: Object, changes: Sequence[str]) -> Object:
    """Return an object with changed labels: see `Scheduler.label`.

    Raises
    ------
    InputError
        A change is malformed, or a label is not valid.
    """
    labels = dict(obj.metadata.labels)
    for change in changes:
        key, equals, value = change.partition("=")
        if equals:
            labels[key] = value
        elif key.endswith("-"):
            labels.pop(key[:-1], None)
        else:
            raise InputError(f'label "{shorten(change, 80)}" is not KEY=VALUE or KEY-')
    changed = replace(obj, metadata=replace(obj.metadata, labels=labels))
    validate(changed)
    return changed
