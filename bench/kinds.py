"""Kinds of pods whose nodes depend on the pods there, and the pods that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench import plugin_pods as pods
from bench.batch import Batch
from bench.cluster import NODES, filled_scheduler, placer_of
from bench.twins import term_twins as twins
from bench.twins.plugin_twins import Twin
from msgspec.structs import replace

from moorage import Scheduler
from moorage.kube import Affinity, Pod, PodAffinity, WeightedPodAffinityTerm

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass(frozen=True)
class Kind:
    """What is placed, and which pods are there already: such as it or these others, `share` per node each."""

    name: str
    pod: Callable[[], Pod]
    share: float = 1.0
    others: tuple[Callable[[], Pod], ...] = ()
    filters: tuple[type[Twin], ...] = ()
    scores: tuple[type[Twin], ...] = ()

    def settle(self, scheduler: Scheduler) -> list[Batch]:
        """Place the pods that are there; each batch can be taken back."""
        count = int(self.share * len(scheduler.context.view_rows()))
        return [_settled(scheduler, of(), count) for of in self.others or (self.pod,)]


def _settled(scheduler: Scheduler, of: Pod, count: int) -> Batch:
    there = replace(of, metadata=replace(of.metadata, name=f"{of.name}-there"))
    batch = Batch(scheduler, placer_of(scheduler, 0), pods.copies(there, count))
    if count:
        batch.place()
        batch.enter()
    assert len(batch.rows) == count
    return batch


def database() -> Pod:
    return pods.pod("database", {"app": "db"})


def lonely() -> Pod:
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(pods.term(pods.HOSTNAME, tier="lonely"),)))
    return pods.pod("lonely", {"app": "lonely", "tier": "lonely"}, affinity=affinity)


def friend() -> Pod:
    affinity = Affinity(pod_affinity=PodAffinity(required=(pods.term(pods.ZONE, app="friend"),)))
    return pods.pod("friend", {"app": "friend"}, affinity=affinity)


def fan() -> Pod:
    preferred = (WeightedPodAffinityTerm(10, pods.term(pods.HOSTNAME, app="friend")),)
    return pods.pod("fan", {"app": "fan"}, affinity=Affinity(pod_affinity=PodAffinity(preferred=preferred)))


PLAIN = Kind("plain pods", pods.plain, share=0)
DEFAULT_SPREAD = Kind("default spread", pods.spread_by_default, scores=(twins.SystemSpread,))
HARD_ZONE = Kind(
    "hard spread over zones", lambda: pods.spread("web", HARD, zone=1), filters=(twins.HardSpread,)
)
ANTI_AFFINITY = Kind("required anti-affinity", lonely, share=0.2, filters=(twins.RequiredAntiAffinity,))
KINDS = (
    DEFAULT_SPREAD,
    HARD_ZONE,
    Kind(
        "hard spread over hosts",
        lambda: pods.spread("web", HARD, hostname=1),
        share=0.2,
        filters=(twins.HardSpread,),
    ),
    Kind(
        "soft spread over zones and hosts",
        lambda: pods.spread("web", SOFT, zone=1, hostname=1),
        scores=(twins.SoftSpread,),
    ),
    ANTI_AFFINITY,
    Kind(
        "required affinity and anti-affinity",
        pods.affine_to_pods,
        share=0.2,
        others=(database,),
        filters=(twins.RequiredAffinity,),
        scores=(twins.TermsOfKin,),
    ),
    Kind("preferred affinity and anti-affinity", pods.preferring_pods, scores=(twins.PreferredAffinity,)),
    Kind(
        "subject to terms of others",
        pods.subject_to_pods,
        share=0.1,
        others=(lonely, friend, fan),
        filters=(twins.TermsOfOthers,),
        scores=(twins.TermsOfOthers,),
    ),
)


def scheduler_with_service(nodes: int = NODES) -> Scheduler:
    """The filled cluster, where a Service selects the pods of `DEFAULT_SPREAD`."""
    scheduler = filled_scheduler(nodes)
    scheduler.client.create(pods.SHOP)
    scheduler.sync()
    return scheduler
