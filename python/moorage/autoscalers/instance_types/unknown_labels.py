"""What pools ask for that no known type has: it is told, and never taken to match or to be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from moorage.errors import examples
from moorage.kube import NodePool

from ..karpenter.requirements.requirement_set import Vocabulary
from ..providers.registrations import AWS, CORE, KWOK, NOTHING, PROVIDERS, registration_of
from .instance_type import InstanceType
from .labels import INSTANCE_TYPE

_LIKENESS = 0.85
"""From which ratio on two labels are so alike that one may be a misspelling of the other."""


def named_labels(types: Iterable[InstanceType]) -> frozenset[str]:
    """Return the labels that types and their offerings name: their provider knows them."""
    return frozenset[str]().union(*[one.label_keys for one in types])


def unknown_names(pool: NodePool, types: Sequence[InstanceType]) -> tuple[int, int]:
    """Return how many of the types that a pool allows by name are known, and how many it names."""
    names = CORE.values_of(INSTANCE_TYPE, pool.spec.template.spec.requirements or ())
    return len(names & {one.name for one in types}), len(names)


def unread_classes(pools: Iterable[NodePool]) -> Iterator[str]:
    """Yield what is not known of nodes, as the node classes of their pools are not read."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for pool in pools:
        ref = pool.spec.template.spec.node_class_ref
        if PROVIDERS.get(ref.group) not in (AWS, KWOK):
            names.setdefault((ref.kind, ref.group), {})[ref.name] = None
    for (kind, group), of_kind in names.items():
        yield (
            f"{kind} {examples([*of_kind], 3)} of {group} is not read: what nodes leave for pods, and for "
            "how many, is as the types say"
        )


def unknown_labels(pool: NodePool, types: Sequence[InstanceType]) -> Iterator[str]:
    """Yield what is wrong with the labels that a pool has or requires: unknown to its types, or misspelt."""
    own = registration_of([pool])
    of_class = PROVIDERS.get(pool.spec.template.spec.node_class_ref.group, NOTHING)
    known = CORE | own
    has = named_labels(types)
    template = pool.spec.template
    keys = [*template.metadata.labels, *(one.key for one in template.spec.requirements or ())]
    for key in dict.fromkeys(map(known.key, keys)):
        about = f"NodePool {pool.name} asks for {key}"
        if key in own.of_types and key not in has and types:
            name = key.rpartition("/")[2]
            twin = next((one for one in sorted(of_class.well_known - {key}) if one.endswith(f"/{name}")), "")
            hint = f'; did you mean "{twin}"?' if twin else ""
            yield f"{about}, which no known type has, so it makes no node here{hint}"
        if key in known.known:
            continue
        like = get_close_matches(key, sorted(known.known), 1, _LIKENESS)
        hint = f'; did you mean "{like[0]}"?' if like else ""
        if known.restricts(key):
            yield f"{about}, which is no label of its provider, so it makes no node{hint}"
        elif like:
            yield f"{about}, a label of its own{hint}"
    vocabulary = Vocabulary(own)
    for one in template.spec.requirements or ():
        key = known.key(one.key)
        of_pool = vocabulary.of_terms([one])
        if key in has - {INSTANCE_TYPE} and not any(
            of_pool.intersects(vocabulary.of_terms([each]))
            for kind in types
            for each in kind.requirements
            if each.key == key
        ):
            text = f"{one.key} {one.operator} [{', '.join(one.values[:3])}]"
            yield f"NodePool {pool.name} asks for {text}, which no known type meets, so it makes no node here"
