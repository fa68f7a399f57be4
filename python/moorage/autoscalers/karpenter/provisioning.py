"""A pass of Karpenter over the pods that wait: which nodes it would make for them, as the pools are once
it has looked at their node classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.engine.scheduler.options import check_sequence, pods_of
from moorage.kube import Condition, EC2NodeClass, Node, NodePool, Object, Pod
from moorage.kube.model.autoscaling import KarpenterSettings
from moorage.kube.model.cluster import now_of
from moorage.kube.read.decode import decode
from moorage.kube.read.python_values import Source
from moorage.store import ObjectClient

from ..autoscaler_protocol import AutoscalerSettings, LastPass
from ..providers.aws.ec2_instance_types import DOMAIN
from ..providers.aws.fleet import launched
from ..providers.instance_type import InstanceType
from ..providers.pool_types import KINDS as SOURCES
from ..providers.pool_types import stored_types
from .cluster_view import KINDS, ClusterObjects, ClusterView, NoPoolsError, PassInput, Removal
from .karpenter_options import KarpenterOptions, karpenter_flags, settings_in
from .new_nodes_result import FinishedClaim, PodError, Provisioning, new_claim
from .solve import Solver, waits_for_reservation

# ---- a pass of Karpenter over the pods that wait: which nodes it would make for them -----------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/provisioner.go.

NO_POOLS = "no dynamic nodepools found"


def provision(view: ClusterView) -> Provisioning:
    """Decide which nodes would be made for pods; changes nothing."""
    pending, moving = view.pending, view.moving(view.situation.now)
    if not pending and not moving:
        return Provisioning(ignored=view.ignored, seed=view.options.seed)
    try:
        return _told(view, view.solver([*pending, *moving], Removal()))
    except NoPoolsError:
        errors = {pod.key: PodError(NO_POOLS) for pod in pending}
        return Provisioning(errors=errors, ignored=view.ignored, seed=view.options.seed)


def _told(view: ClusterView, solver: Solver) -> Provisioning:
    errors = {
        key: PodError(str(refusal), waits_for_reservation(refusal)) for key, refusal in solver.errors.items()
    }
    types_of = {}
    for claim in sorted(solver.claims, key=lambda claim: claim.name):
        finished = view.finisher.finished(claim)
        if isinstance(finished, FinishedClaim):
            types_of[claim.name] = new_claim(finished)
        else:
            errors |= {candidate.pod.key: PodError(finished) for candidate in claim.pods}
    places = {name: place for place, name in enumerate(types_of)}
    return Provisioning(
        tuple(types_of.values()),
        tuple([places[claim.name] for claim in solver.claims if claim.name in places]),
        {
            node.state.name: tuple([pod.pod.key for pod in node.pods])
            for node in solver.nodes.hosts
            if node.pods
        },
        errors,
        view.ignored,
        {key: tuple(texts) for key, texts in solver.relaxations.items()},
        view.templates[1],
        view.options.seed,
    )


# ---- NodePools as Karpenter sees them once it has looked at their node classes -----------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/nodepool/readiness.


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


def stored_pools(client: ObjectClient) -> list[NodePool]:
    """Return the pools of a cluster. Those whose EC2NodeClass is there and not ready are not ready either,
    whatever they say: Karpenter looks again."""
    classes: dict[str, EC2NodeClass] = {
        node_class.name: node_class for node_class in client.list(EC2NodeClass)[0]
    }
    return [_with_state(pool, classes) for pool in client.list(NodePool)[0]]


def _with_state(pool: NodePool, classes: Mapping[str, EC2NodeClass]) -> NodePool:
    reference = pool.spec.template.spec.node_class_ref
    node_class = classes.get(reference.name) if reference.group == DOMAIN else None
    if node_class is None or not (why := _why_unready(node_class)):
        return pool
    own = {condition.type: condition for condition in pool.status.conditions}
    unready = {
        "ValidationSucceeded": own.get("ValidationSucceeded", Condition("ValidationSucceeded", "True")),
        "NodeClassReady": Condition(
            "NodeClassReady", "False", message=f"EC2NodeClass {node_class.name}: {why}"
        ),
        "Ready": Condition("Ready", "False"),
    }
    status = replace(pool.status, conditions=tuple((own | unready).values()))
    return replace(pool, status=status)


def _why_unready(node_class: EC2NodeClass) -> str:
    """Why a node class is not ready, in the words of its conditions; "" if it is, or nothing says."""
    if node_class.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    conditions = {
        condition.type: condition for condition in decode(dict(node_class.status), _Status).conditions
    }
    ready = conditions.pop("Ready", None)
    if ready is None or ready.status == "True":
        return ""
    broken = [
        f"{condition.type}: {condition.message}"
        for condition in conditions.values()
        if condition.status != "True" and condition.message
    ]
    return "; ".join(broken) or ready.message or f"Ready is {ready.status}"


# ---- which nodes Karpenter would make for the pods of a scheduler ------------------------------------------


def check_type(name: str, value: object, kind: type) -> None:
    """Refuse an argument that is neither None nor of a type, by a TypeError."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")


@dataclass(frozen=True)
class PassQuestion:
    """What a pass is asked: the objects of a scheduler's store, the pods, and types by pool."""

    stored: dict[type[Object], list[Object]]
    situation: PassInput
    options: KarpenterOptions
    last: LastPass
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def pools(self) -> list[NodePool]:
        """The pools of the cluster."""
        return [pool for pool in self.stored[NodePool] if isinstance(pool, NodePool)]

    def view(self) -> ClusterView:
        """The cluster as Karpenter sees it."""
        objects = ClusterObjects(chain.from_iterable(self.stored.values()))
        earlier = self.last.view
        if earlier is not None and earlier.options != self.options:
            earlier = None
        self.last.view = view = ClusterView(objects, self.situation, self.options, earlier=earlier)
        return view

    def answer(self) -> Provisioning:
        """Play the pass."""
        return provision(self.view())

    def about(self, pod: Pod, pool: NodePool, types: Sequence[InstanceType]) -> PassQuestion:
        """The question whether one pool makes a node for one pod; both may have changed."""
        pods = [pod if other.key == pod.key else other for other in self.stored[Pod]]
        stored = self.stored | {Pod: pods, NodePool: [pool]}
        chosen, by_pool = frozenset([pod.key]), {pool.name: types}
        situation = dataclasses.replace(self.situation, types=by_pool, chosen=chosen, only_new=True)
        return dataclasses.replace(self, stored=stored, situation=situation)


def pass_question(
    scheduler: PodScheduler,
    pods: Sequence[Source] | None,
    autoscaling: AutoscalerSettings,
    now: float | None = None,
) -> PassQuestion:
    """What a pass would be asked about pods as for `Scheduler.provision`, by default when the newest object
    came. Types that a question before with these settings was about are not read again."""
    check_type("options", autoscaling.options, KarpenterOptions)
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
    kinds: tuple[type[Object], ...] = (Node, *SOURCES)
    sources: list[object] = [autoscaling.types, *(client.list(kind)[0] for kind in kinds)]
    if autoscaling.last.types is None or autoscaling.last.sources != sources:
        autoscaling.last.sources, autoscaling.last.types = sources, stored_types(autoscaling.types, client)
    types_there = autoscaling.last.types
    flags = autoscaling.options or karpenter_flags(settings_in(client.list(KarpenterSettings)[0]))
    settings = dataclasses.replace(
        flags, seed=autoscaling.seed, provider=flags.provider | types_there.provider
    )
    now = now_of(chain.from_iterable(stored.values())) if now is None else now
    situation = PassInput(types_there.by_pool, now, chosen=chosen, launcher=launched)
    return PassQuestion(stored, situation, settings, autoscaling.last, types_there.source, types_there.notes)
