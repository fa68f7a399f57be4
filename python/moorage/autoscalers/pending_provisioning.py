"""Which nodes Karpenter would make for the pods of a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from moorage.cluster import PodScheduler
from moorage.engine.scheduler.options import check_sequence, pods_of
from moorage.kube import NodePool, Object, Pod
from moorage.kube.model.autoscaling import KarpenterSettings
from moorage.kube.model.cluster import now_of
from moorage.kube.read.python_values import Source

from .instance_types.instance_type import InstanceType
from .instance_types.node_class_states import stored_pools
from .instance_types.pool_types import Types, stored_types
from .karpenter.claims.catalogue import Catalogue
from .karpenter.cluster_view import KINDS, ClusterObjects, ClusterView, Situation
from .karpenter.karpenter_options import KarpenterOptions
from .karpenter.karpenter_settings import karpenter_flags, settings_in
from .karpenter.new_nodes_result import Provisioning
from .karpenter.provision import provision
from .providers.aws.fleet import launched


def check_type(name: str, value: object, kind: type) -> None:
    """Refuse an argument that is neither None nor of a type, by a TypeError."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")


@dataclass(frozen=True)
class PassQuestion:
    """What a pass is asked: the objects of a scheduler's store, the pods, and types by pool."""

    stored: dict[type[Object], list[Object]]
    situation: Situation
    options: KarpenterOptions
    catalogue: Catalogue
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def pools(self) -> list[NodePool]:
        """The pools of the cluster."""
        return [one for one in self.stored[NodePool] if isinstance(one, NodePool)]

    def view(self) -> ClusterView:
        """The cluster as Karpenter sees it."""
        objects = ClusterObjects(chain.from_iterable(self.stored.values()))
        return ClusterView(objects, self.situation, self.options, self.catalogue)

    def answer(self) -> Provisioning:
        """Play the pass."""
        return provision(self.view())

    def about(self, pod: Pod, pool: NodePool, types: Sequence[InstanceType]) -> PassQuestion:
        """The question whether one pool makes a node for one pod; both may have changed."""
        pods = [pod if one.key == pod.key else one for one in self.stored[Pod]]
        stored = self.stored | {Pod: pods, NodePool: [pool]}
        asked, by_pool = frozenset([pod.key]), {pool.name: types}
        situation = replace(self.situation, types=by_pool, chosen=asked, only_new=True)
        return replace(self, stored=stored, situation=situation)


def pass_question(
    scheduler: PodScheduler,
    pods: Sequence[Source] | None = None,
    types: Types | None = None,
    options: KarpenterOptions | None = None,
    seed: int = 0,
    catalogue: Catalogue | None = None,
) -> PassQuestion:
    """What a pass would be asked; the arguments are those of `Scheduler.provision`, and the catalogue of a
    question before about the same types, which then need not be read again."""
    check_type("options", options, KarpenterOptions)
    if pods is not None:
        check_sequence(pods)
    scheduler.sync()
    client = scheduler.client
    stored: dict[type[Object], list[Object]] = {kind: list(client.list(kind)[0]) for kind in KINDS}
    stored[NodePool] = [*stored_pools(client)]
    given = None
    if pods is not None:
        known = {pod.key: pod for pod in stored[Pod]}
        named = [known.get(pod, pod) if isinstance(pod, str) else pod for pod in pods]
        given = pods_of(client, named)
        stored[Pod] += [pod for pod in given if pod.key not in known]
    waiting = stored[Pod] if given is None else given
    chosen = frozenset(
        pod.key
        for pod in waiting
        if isinstance(pod, Pod) and not (pod.spec.node_name or pod.spec.scheduling_gates)
    )
    types_there = stored_types(types, client)
    flags = options or karpenter_flags(settings_in(client.list(KarpenterSettings)[0]))
    settings = replace(flags, seed=seed, provider=flags.provider | types_there.provider)
    now = now_of(chain.from_iterable(stored.values()))
    situation = Situation(types_there.by_pool, now, chosen=chosen, launcher=launched)
    if catalogue is None or catalogue.options != settings:
        catalogue = Catalogue(settings)
    return PassQuestion(stored, situation, settings, catalogue, types_there.source, types_there.notes)
