"""Which instance types pools have: those given, those of their provider, or those that nodes show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain, combinations
from math import ceil

import msgspec

from moorage._core.base.quantity import Quantity
from moorage._core.provision.label_requirements import Vocabulary
from moorage.cluster.amounts import compared
from moorage.errors import InputError, examples, first_of, located, number_of
from moorage.kube import Node, NodeOverlay, NodePool, NodeSelectorRequirement, Object, PersistentVolume
from moorage.kube.model.autoscaling import (
    NODE_CLASSES,
    GCENodeClass,
    KarpenterSettings,
    NodeClaimRequirement,
    ProviderNodeClass,
)
from moorage.kube.model.meta import whole
from moorage.kube.model.node import REGION
from moorage.lazy import NamedTuple
from moorage.notes import RoutineNote
from moorage.store import ObjectClient

from ..hourly_cost import sum_text
from ..karpenter.karpenter_options import has_overlays, provider_flags, settings_in
from . import azure, gcp
from .aws.ec2_answers import NO_ANSWERS, catalogue
from .aws.ec2_instance_types import AUTO_MODE_DOMAIN, DOMAIN, NOT_LAUNCHED
from .aws.node_class import DEFAULTS, ProviderOptions
from .aws.region_types import allows_spot, asked_zones, aws_types, has_node_class
from .instance_type import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    INTERFACES,
    MADE_HERE,
    POOL,
    ZONE,
    InstanceType,
    ListedTypes,
    ShownSizes,
    seen_types,
    shown_types,
)
from .known_labels import (
    AWS,
    CORE,
    DOMAINS,
    INTERNAL,
    KWOK,
    NOTHING,
    PROVIDERS,
    RESERVATION_ID,
    KnownLabels,
    known_labels_of,
)
from .prices import SPOT_UNKNOWN, OwnPrices, overlaid, prices_by
from .type_sources import AZURE, GCP, REGION_OF, TypeSources, region_among

# ---- what pools ask for that no known type has: it is told, and never taken to match or to be there --------

_AUTO_MODE_SIZES = (f"{AUTO_MODE_DOMAIN}/instance-cpu", f"{AUTO_MODE_DOMAIN}/instance-size")
_LIKENESS = 0.85
"""From which ratio on two labels are so alike that one may be a misspelling of the other."""


def named_labels(types: Iterable[InstanceType]) -> frozenset[str]:
    """Return the labels that types and their offerings name: their provider knows them."""
    return frozenset[str]().union(*[kind.label_keys for kind in types])


def unknown_names(pool: NodePool, types: Sequence[InstanceType]) -> tuple[int, int]:
    """Return how many of the types that a pool allows by name are known, and how many it names."""
    names = CORE.values_of(INSTANCE_TYPE, pool.spec.template.spec.requirements or ())
    return len(names & {kind.name for kind in types}), len(names)


def not_launched(pool: NodePool, types: Sequence[InstanceType]) -> Iterator[str]:
    """Yield which types that a pool of EKS Auto Mode names are never launched."""
    if _group(pool) == AUTO_MODE_DOMAIN and types:
        names = CORE.values_of(INSTANCE_TYPE, pool.spec.template.spec.requirements or ())
        of_aws = {kind.instance_type for kind in catalogue().types}
        left_out = sorted(names & of_aws - {kind.name for kind in types})
        if left_out:
            yield f"NodePool {pool.name} names {examples(left_out, 3)}: {NOT_LAUNCHED}"


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
    """Yield what is wrong with the labels that a pool has or requires: unknown to its types, misspelt, or of
    fewer values than it asks for."""
    own = known_labels_of([pool])
    of_class = PROVIDERS.get(pool.spec.template.spec.node_class_ref.group, NOTHING)
    known = CORE | own
    has = named_labels(types)
    template = pool.spec.template
    keys = [*template.metadata.labels, *(requirement.key for requirement in template.spec.requirements or ())]
    for key in dict.fromkeys(map(known.key, keys)):
        about = f"NodePool {pool.name} asks for {key}"
        of_provider = sorted(of_class.well_known - {key})
        twins = [each for each in of_provider if each.endswith(f"/{key.rpartition('/')[2]}")]
        if key in own.of_types and key not in has and types:
            hint = f'; did you mean "{twins[0]}"?' if twins else ""
            yield f"{about}, which no known type has, so it makes no node here{hint}"
        if key in known.known:
            continue
        like = get_close_matches(key, sorted(known.known), 1, _LIKENESS)
        hint = f'; did you mean "{[*twins, *like][0]}"?' if like else ""
        if known.restricts(key):
            yield f"{about}, which is no label of its provider, so it makes no node{hint}"
        elif like:
            yield f"{about}, a label of its own{hint}"
    vocabulary = Vocabulary(CORE | own)
    of_types = has | ({ZONE} if any(kind.offerings for kind in types) else set())
    limited = [each for each in template.spec.requirements or () if known.key(each.key) in of_types]
    for unmet in _unmet(limited, types, vocabulary):
        keys = [known.key(each.key) for each in unmet]
        if keys == [INSTANCE_TYPE]:
            continue  # how many of them are known is told
        texts = [f"{each.key} {each.operator} [{', '.join(each.values[:3])}]" for each in unmet]
        together = " together" if len(unmet) > 1 else ""
        why = f": {NOT_LAUNCHED}" if {*keys} & {*_AUTO_MODE_SIZES} else ""
        about = f"NodePool {pool.name} asks for {' and '.join(texts)}"
        yield f"{about}, which no known type meets{together}, so it makes no node here{why}"
    yield from _too_few_values(pool, types, vocabulary)


def _unmet(
    requirements: Sequence[NodeClaimRequirement], types: Iterable[InstanceType], vocabulary: Vocabulary
) -> Sequence[Sequence[NodeClaimRequirement]]:
    """Return the requirements that no offering of a type meets; else one of the smallest combinations."""
    each_asked, met = [vocabulary.of_terms([each]) for each in requirements], set[frozenset[int]]()
    everything = frozenset(range(len(requirements)))
    of_offering = dict[tuple[NodeSelectorRequirement, ...], frozenset[int]]()

    def meets(terms: tuple[NodeSelectorRequirement, ...]) -> frozenset[int]:
        has = vocabulary.of_terms(terms)
        return frozenset([at for at, each in enumerate(each_asked) if each.intersects(has)])

    for kind in types:
        of_kind = meets(tuple(kind.requirements))
        for each in kind.offerings:
            if each.may_come:
                pair = zip((ZONE, CAPACITY_TYPE), (each.zone, each.capacity_type), strict=True)
                own = tuple([NodeSelectorRequirement(key, "In", (value,)) for key, value in pair])
                if own not in of_offering:
                    of_offering[own] = meets(own)
                met.add(of_kind & of_offering[own])
        if everything in met:  # as in most pools
            return ()
    for size in range(1, len(requirements) + 1 if met else 0):
        chosen = combinations(range(len(requirements)), size)
        if unmet := [
            [requirements[at] for at in each] for each in chosen if not any(map({*each}.issubset, met))
        ]:
            return unmet if size == 1 else unmet[:1]
    return ()


def _too_few_values(pool: NodePool, types: Sequence[InstanceType], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the labels of which the types that meet a pool have fewer values than its minValues."""
    requirements = pool.spec.template.spec.requirements or ()
    minimums = [(each, each.min_values) for each in requirements if each.min_values is not None]
    of_pool = vocabulary.of_terms(requirements)
    left = [kind for kind in types if minimums and of_pool.intersects(vocabulary.of_terms(kind.stated))]
    for requirement, least in minimums if left else ():
        key, allowed = requirement.key, vocabulary.of_terms([requirement])
        of_types = {
            value for kind in left for each in kind.stated if each.key == key for value in each.values
        }
        values = [
            value
            for value in sorted(of_types)
            if allowed.intersects(vocabulary.of_terms([NodeSelectorRequirement(key, "In", (value,))]))
        ]
        if len(values) < least:
            about, number = f"NodePool {pool.name} asks for at least {least} values of {key}", len(values)
            yield f"{about}, and the types that meet it have {number}: {examples(values, 6)}"


# ---- what Karpenter believes of instance types, beside what their nodes have -------------------------------

_NOTICED = 0.01
"""From which share on more room than believed is told. The same holds for storage that a node lacks: its file
system always keeps some of the disk for itself."""
_NOTHING = Quantity("0")
_STORAGE = "ephemeral-storage"
_VARYING = ("cpu ", "memory ", f"{_STORAGE} ")
"""Of these nodes often have somewhat more than Karpenter believes."""


def size_notes(by_pool: Mapping[str, Sequence[InstanceType]], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield where nodes are smaller than Karpenter believes, so that nodes come in vain, or larger, so that
    paid room stays empty; and the share of memory to set aside that would fit the nodes."""
    pools_of, nodes_of = dict[InstanceType, list[str]](), dict[tuple[str, str], list[Node]]()
    for pool, types in by_pool.items():
        for kind in types:
            if kind.shown is not None and kind.shown.sold:
                pools_of.setdefault(kind, []).append(pool)
    for node in nodes:
        if not node.spec.provider_id.startswith(MADE_HERE):
            labels = node.metadata.labels
            pool_and_type = labels.get(POOL, ""), labels.get(INSTANCE_TYPE, "")
            nodes_of.setdefault(pool_and_type, []).append(node)
    for kind, pools in pools_of.items():
        yield from _differences(
            kind, [each for pool in pools for each in nodes_of.get((pool, kind.name), ())]
        )
    yield from _fitting_overhead({kind.name: kind.shown for kind in pools_of if kind.shown is not None})


def _differences(kind: InstanceType, nodes: Sequence[Node]) -> Iterator[str]:
    assert kind.shown is not None
    believed, own = kind.allocatable({}), kind.shown.allocatable
    larger, smaller, unused = list[str](), list[str](), 0.0
    unknown = {"cpu", "memory", "pods", _STORAGE} - own.keys()  # every kubelet has them
    for name in sorted({*believed, *own} - unknown):
        ours, theirs = (whole(name, each.get(name, _NOTHING)) for each in (own, believed))
        share = (ours - theirs) / max(ours, theirs, 1)
        if name.startswith(INTERFACES) or abs(share) < _NOTICED * (share > 0 or name == _STORAGE):
            continue
        texts = "{}, nodes have {}".format(*compared(name, theirs, ours))
        if share < 0:
            larger.append(f"{name} {texts}")
        elif share > 0 and name in believed:
            smaller.append(f"{name} {texts}")
            unused = max(unused, share) if name in ("cpu", "memory") else unused
    if larger:
        yield (
            f"Karpenter believes {kind.name} larger than its nodes are ({'; '.join(larger)}): pods that need "
            "the rest wait, and nodes come for them in vain"
        )
    if smaller:
        prices = [price.most for price in map(prices_by([kind]), nodes) if price.is_known]
        count = number_of(len(nodes), "node", "nodes")
        smaller.sort(key=lambda text: text.startswith(_VARYING))
        head = f"Karpenter believes {kind.name} smaller than its nodes are ({'; '.join(smaller)})"
        lost = f", {sum_text(unused * sum(prices))} $/h" if prices and unused else ""
        if smaller[0].startswith(_VARYING):
            yield RoutineNote(f"{head}: room of {count} is paid for and not used{lost}")
        else:
            yield f"{head}: pods that would fit one wait, or more nodes come than are needed{lost}"


def _fitting_overhead(shown: Mapping[str, ShownSizes]) -> Iterator[str]:
    """The share of the memory sold that nodes never see, where the one that is set does not fit."""
    memory = {
        name: each.capacity["memory"].value() for name, each in shown.items() if "memory" in each.capacity
    }
    off = {name: (shown[name].estimated - amount) / shown[name].sold for name, amount in memory.items()}
    wrong = [name for name, share in off.items() if share > 0 or -share > _NOTICED]
    if not wrong:
        return
    lacking = max(0.0, *(1 - amount / shown[name].sold for name, amount in memory.items()))
    worst = max(wrong, key=lambda name: (off[name] > 0, abs(off[name])))
    believes, have = compared("memory", shown[worst].estimated, memory[worst])
    yield RoutineNote(
        f"the nodes of {examples(sorted(memory), 3)} fit a vmMemoryOverheadPercent of "
        f"{ceil(lacking * 1000) / 1000:g}, not {shown[worst].overhead:g}: until a first {worst} is there, "
        f"Karpenter believes that it has {believes} of memory, and nodes have {have}"
    )


# ---- pool types --------------------------------------------------------------------------------------------

ProvidedTypes = str | TypeSources | ListedTypes
"""A provider, such as ``aws`` or ``aws:us-east-1``, also with what files say; or what the command of a
provider lists. Which types pools have of these depends on the cluster."""
SEEN = "types as seen on"
"""How the source of types begins that nodes show."""


class PoolTypes(NamedTuple):
    """Types by pool.

    Attributes
    ----------
    by_pool : mapping of str to sequence of InstanceType
        Where there is no pool, types that are given for the prices of nodes are those of the pool "".
    source : str
        What types of a provider rest on, or where they were seen; "" for those that are given.
    provider : KnownLabels
        What is known of their labels.
    notes : tuple of str
        What pools ask for that nothing is known of, and what is believed of types that their nodes disprove.
    sources : TypeSources or None
        What options name of AWS, with the region that is known: by its list of prices all nodes have one.
        None where all types are given.
    own_prices : str
        That own prices count, and which do not; "" without any.
    """

    by_pool: Mapping[str, Sequence[InstanceType]]
    source: str
    provider: KnownLabels
    notes: tuple[str, ...] = ()
    sources: TypeSources | None = None
    own_prices: str = ""

    def every(self) -> list[InstanceType]:
        """Return the types of all pools, each once."""
        return [*dict.fromkeys(chain.from_iterable(self.by_pool.values()))]


Types = Sequence[InstanceType] | Mapping[str, Sequence[InstanceType]] | ProvidedTypes | PoolTypes
"""Instance types: of all pools, or by pool; or those of a provider; or what was read of these before."""


def pool_types(
    types: Types | None,
    pools: Sequence[NodePool],
    node_classes: Sequence[ProviderNodeClass],
    nodes: Sequence[Node],
    zones: frozenset[str] = frozenset(),
    flags: ProviderOptions = DEFAULTS,
) -> PoolTypes:
    """Return the types of pools, and what is not known of them.

    Parameters
    ----------
    types : sequence, mapping, str or None
        By default pools with an EC2NodeClass and those of EKS Auto Mode have the types of AWS, and others
        those that their nodes show. A mapping has the types as they are, with NodeOverlays.
    zones : frozenset of str
        Zones that are known besides those of nodes and pools.

    Raises
    ------
    InputError
        A pool of the mapping is not there, or the region of AWS is not known.
    """
    if isinstance(types, PoolTypes):
        return types
    if types is None or isinstance(types, ProvidedTypes):
        known = _provided_types(types, pools, node_classes, nodes, zones, flags)
    else:
        known = _given_types(types, pools)
    counts, notes = [known.source], list[str]()
    for pool in pools:
        of_pool = known.by_pool.get(pool.name, ())
        left, names = unknown_names(pool, of_pool)
        counts += [f"{left} of {names} that NodePool {pool.name} names known"] * (left < names)
        notes += [*not_launched(pool, of_pool), *unknown_labels(pool, of_pool)]
    unread = [pool for pool in pools if not (known.source and _group(pool) in _READ)]
    notes += [*unread_classes(unread), *size_notes(known.by_pool, nodes)]
    return known._replace(source=", ".join(counts) if known.source else "", notes=tuple(notes))


def _given_types(
    types: Sequence[InstanceType] | Mapping[str, Sequence[InstanceType]], pools: Sequence[NodePool]
) -> PoolTypes:
    names = [pool.name for pool in pools]
    if isinstance(types, Mapping):
        by_pool = types
        if unknown := [name for name in by_pool if name and name not in names]:
            raise InputError(f"types: there is no NodePool {unknown[0]}")
    else:
        if not isinstance(types, Sequence):
            raise TypeError(f"types: must be instance types, not {types!r}")
        given = [kind for kind in types if isinstance(kind, InstanceType)]
        if len(given) < len(types):
            raise TypeError(f"types: must be instance types, not {types!r}")
        by_pool = dict.fromkeys(names or [""], given)  # without a pool for the prices of nodes
    return PoolTypes(by_pool, "", known_labels_of(pools) | _named(by_pool))


def _provided_types(
    types: ProvidedTypes | None,
    pools: Sequence[NodePool],
    node_classes: Sequence[ProviderNodeClass],
    nodes: Sequence[Node],
    zones: frozenset[str],
    flags: ProviderOptions,
) -> PoolTypes:
    sources = TypeSources.of(types) if isinstance(types, str) else TypeSources()
    if isinstance(types, TypeSources):
        sources = types
    resolved = sources
    if not (pools or isinstance(types, ListedTypes) or sources.answers is not NO_ANSWERS):
        own_prices = sources.prices.used_on((), nodes)
        return PoolTypes({}, "", NOTHING, sources=sources, own_prices=own_prices)
    there, by_pool, parts = {pool.name for pool in pools}, dict[str, Sequence[InstanceType]](), list[str]()
    if isinstance(types, ListedTypes):
        by_pool, source = _listed(types, pools, node_classes, nodes)
        parts.append(source)
    else:
        for name, lister in _LISTERS.items():
            of_lister = [each for each in pools if _group(each) == lister.group]
            if sources.provider == name and not of_lister:
                raise InputError(
                    f"no NodePool has a node class of {lister.group}, so there are no types of {name}"
                )
            if of_lister:
                listed, region = _of_catalogue(name, sources, of_lister, nodes, zones)
                of_pools, source = _listed(listed, of_lister, node_classes, nodes)
                by_pool |= of_pools
                parts.append(source)
                resolved = replace(sources, provider=name, region=region)
        of_aws = [pool for pool in pools if has_node_class(pool)]
        if (sources.provider == "aws" or sources.answers is not NO_ANSWERS) and not of_aws:
            raise InputError(
                "no NodePool has an EC2NodeClass or is of EKS Auto Mode, so there are no types of AWS"
            )
        if of_aws:
            given = replace(_named_for("aws", sources), flags=flags)
            of_provider = aws_types(given, of_aws, node_classes, nodes, zones)
            by_pool |= of_provider.by_pool
            parts.append(of_provider.source)
            resolved = replace(sources, provider="aws", region=of_provider.region)
    if by_pool:
        source = f"types: {'; '.join(parts)}"
    else:
        count = sum(node.metadata.labels.get(POOL) in there for node in nodes)
        source = f"{SEEN} {number_of(count, 'node', 'nodes')}"
    provider, shown = known_labels_of(pools), dict[str, Sequence[InstanceType]]()
    for name, seen in seen_types(nodes, DOMAINS | provider.domains).items():
        of_catalogue = by_pool.get(name, ())
        known = {kind.name for kind in of_catalogue}
        newer = [kind for kind in sources.prices.put_on(seen) if kind.name not in known]
        if newer and name in there:
            shown[name], by_pool[name] = newer, [*of_catalogue, *newer]
            texts = examples([kind.name for kind in newer], 3)
            about = (
                f"; {texts} of NodePool {name} not in the catalogue: as nodes show it, at an unknown price"
            )
            source += about if known else ""
    own_prices = sources.prices.used_on(chain.from_iterable(by_pool.values()), nodes)
    offered = chain.from_iterable(by_pool.get(pool.name, ()) for pool in pools if allows_spot(pool))
    is_bound = any(offering.is_bound for kind in offered for offering in kind.offerings)
    source = "; ".join(filter(None, [source, SPOT_UNKNOWN if is_bound else "", own_prices]))
    named = shown if resolved.provider == "aws" or not parts else by_pool
    lists = None if isinstance(types, ListedTypes) else resolved
    provider |= _named(named)
    return PoolTypes(by_pool, source, provider, sources=lists, own_prices=own_prices)


class _Lister(NamedTuple):
    """A provider with a catalogue of its own, by the group of its node classes."""

    group: str
    zones_of: Callable[[str], list[str]]
    types_of: Callable[[str, Collection[str]], ListedTypes]
    takes_all_zones: bool


_LISTERS = {
    GCP: _Lister(gcp.GROUP, gcp.zones_of, gcp.types_of, False),
    AZURE: _Lister(azure.GROUP, azure.zones_of, azure.types_of, True),
}


_READ = (DOMAIN, AUTO_MODE_DOMAIN, gcp.GROUP, azure.GROUP)
"""Groups whose node classes are read where the types are those of the provider."""


def _group(pool: NodePool) -> str:
    return pool.spec.template.spec.node_class_ref.group


def _named_for(provider: str, sources: TypeSources) -> TypeSources:
    """What options name, without the region of another provider."""
    return sources if sources.provider in ("", provider) else replace(sources, region="", zones=())


def _of_catalogue(
    name: str,
    sources: TypeSources,
    pools: Sequence[NodePool],
    nodes: Sequence[Node],
    volume_zones: frozenset[str],
) -> tuple[ListedTypes, str]:
    """The types of a provider's catalogue in the region and the zones of its pools, and this region."""
    lister, own = _LISTERS[name], {pool.name for pool in pools}
    labels = [node.metadata.labels for node in nodes if node.metadata.labels.get(POOL) in own]
    there = {each[key] for each in labels for key in (ZONE, REGION) if key in each}
    there |= volume_zones | asked_zones(pools)
    given = _named_for(name, sources)
    others = () if there or given.region else nodes  # the pools have none yet
    named = {REGION_OF[name](node.metadata.labels.get(key, "")) for node in others for key in (ZONE, REGION)}
    of_others = {each for each in named if each and lister.types_of(each, lister.zones_of(each)).types}
    region = region_among(name, given.region, there or of_others, pools[0].name)
    every = lister.zones_of(region)
    zones = given.zones or [zone for zone in every if zone in there and not lister.takes_all_zones] or every
    types = _priced(name, region, tuple(zones), sources.prices)
    if not types.types:
        raise InputError(f"the catalogue of {name} has no types of {region}: give a list, see --help")
    why = "given" if given.zones else "all" if [*zones] == every else "of nodes, volumes and pools"
    about = f"{types.source}; zones, {why}: {examples(sorted(zones), 6)}" if zones else types.source
    return replace(types, source=about), region


@lru_cache(64)
def _priced(name: str, region: str, zones: tuple[str, ...], prices: OwnPrices) -> ListedTypes:
    return _LISTERS[name].types_of(region, zones).at(prices.put_on)


def _listed(
    types: ListedTypes, pools: Sequence[NodePool], classes: Iterable[ProviderNodeClass], nodes: Sequence[Node]
) -> tuple[dict[str, Sequence[InstanceType]], str]:
    """The types of a list by pool, and what they rest on. Where the node class does not say how many pods a
    node takes, the pool's nodes show it."""
    source, given = types.source, {(each.kind, each.name): each for each in classes}
    if not pools:
        return {"": types.types}, source
    own = [pool for pool in pools if _group(pool) == types.group]
    if not own:
        raise InputError(f"no NodePool has a node class of {types.group}, for which the list of types is")
    by_pool = dict[str, Sequence[InstanceType]]()
    for pool in own:
        name, reference = pool.name, pool.spec.template.spec.node_class_ref
        node_class = given.get((reference.kind, reference.name))
        kinds = types.types
        if node_class is not None:
            with located(obj=node_class.full_name):
                kinds = types.of_spec(msgspec.json.encode(node_class.spec))
        else:
            source += f"; {reference.kind} {reference.name} is not in the input: {types.assumed}"
        of_pool = [node for node in nodes if node.metadata.labels.get(POOL) == name]
        zones = {each.metadata.labels[ZONE] for each in of_pool if ZONE in each.metadata.labels}
        offered = {offering.zone for kind in kinds for offering in kind.offerings}
        if zones and zones.isdisjoint(offered):
            listed, there = examples(sorted(offered), 3), examples(sorted(zones), 3)
            raise InputError(
                f"the list of types is of zones {listed}, and NodePool {name} has nodes in {there}"
            )
        shown = shown_types(of_pool)
        amounts = {kind: ShownSizes(dict(capacity), dict(left)) for kind, capacity, left in shown}
        by_pool[name] = [replace(kind, shown=amounts.get(kind.name, kind.shown)) for kind in kinds]
        if isinstance(node_class, GCENodeClass) or (node_class and "maxPods" in node_class.spec):
            continue
        counts = [amount.capacity["pods"] for amount in amounts.values() if "pods" in amount.capacity]
        pods = {"pods": min(counts, default=types.types[0].capacity["pods"])}
        by_pool[name] = [replace(kind, capacity={**kind.capacity, **pods}) for kind in by_pool[name]]
        source += f"; {pods['pods']} pods a node of NodePool {name}{'' if counts else ' assumed'}"
    return by_pool, source


KINDS: tuple[type[Object], ...] = (
    NodePool,
    *NODE_CLASSES,
    PersistentVolume,
    NodeOverlay,
    KarpenterSettings,
)
"""The kinds by which types are told, besides nodes."""


def stored_types(types: Types | None, client: ObjectClient) -> PoolTypes:
    """Return the types of the pools of a cluster; see `pool_types`."""
    objects = chain[Object](*[client.list(kind)[0] for kind in KINDS])
    return types_of_objects(types, client.list(Node)[0], objects)


def types_of_objects(types: Types | None, nodes: Sequence[Node], objects: Iterable[Object]) -> PoolTypes:
    """Return the types of the pools among some objects; see `pool_types`."""
    every = list(objects)
    pools = [each for each in every if isinstance(each, NodePool)]
    classes = [each for each in every if isinstance(each, ProviderNodeClass)]
    overlays = [each for each in every if isinstance(each, NodeOverlay)]
    settings, zones = settings_in(every), _zones_of_volumes(every, CORE | known_labels_of(pools))
    known = pool_types(types, pools, classes, nodes, zones, provider_flags(settings))
    known = _after_launches(known, nodes)
    if not overlays or isinstance(types, Mapping | PoolTypes):
        return known
    if not has_overlays(settings):
        names = first_of([overlay.name for overlay in overlays], 3)
        off = f"without NodeOverlay {names}: the gate is off in Karpenter's Deployment"
        return known._replace(notes=(*known.notes, off))
    by_pool, notes = overlaid(known.by_pool, pools, overlays, CORE | known.provider)
    gate = "" if settings is not None else "the gate NodeOverlay is taken to be on, and "
    notes.append(f"{gate}prices are those that NodeOverlays leave, by which Karpenter chooses")
    return known._replace(by_pool={**known.by_pool, **by_pool}, notes=(*known.notes, *notes))


def _after_launches(known: PoolTypes, nodes: Iterable[Node]) -> PoolTypes:
    """Types once simulated nodes have taken instances of reservations."""
    made_here = [node for node in nodes if node.spec.provider_id.startswith(MADE_HERE)]
    taken = Counter(node.metadata.labels.get(RESERVATION_ID, "") for node in made_here)
    del taken[""]
    if not taken:
        return known

    def left(kind: InstanceType) -> InstanceType:
        offerings = [
            replace(each, reservation_capacity=max(each.reservation_capacity - taken[each.reservation_id], 0))
            if each.reservation_id in taken
            else each
            for each in kind.offerings
        ]
        return kind if offerings == [*kind.offerings] else replace(kind, offerings=tuple(offerings))

    return known._replace(by_pool={pool: [*map(left, types)] for pool, types in known.by_pool.items()})


def _zones_of_volumes(objects: Iterable[Object], known: KnownLabels) -> frozenset[str]:
    """The zones to which volumes are bound: their cluster has nodes there."""
    affinities = [each.spec.node_affinity for each in objects if isinstance(each, PersistentVolume)]
    terms = [
        term
        for affinity in affinities
        if affinity and affinity.required
        for term in affinity.required.node_selector_terms
    ]
    return frozenset(known.values_of(ZONE, chain.from_iterable(term.match_expressions for term in terms)))


def _named(types: Mapping[str, Sequence[InstanceType]]) -> KnownLabels:
    return KnownLabels(named_labels(dict.fromkeys(chain.from_iterable(types.values()))) - INTERNAL)
