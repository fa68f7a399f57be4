"""A pass of Karpenter over the pods that wait: which nodes it would make for them.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/provisioner.go.
"""

from __future__ import annotations

from .cluster_view import ClusterView, NoPoolsError, Removal
from .new_nodes_result import FinishedClaim, PodError, Provisioning, new_claim
from .solve import Solver, waits_for_reservation

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
    made = {}
    for claim in sorted(solver.claims, key=lambda claim: claim.name):
        finished = view.finisher.finished(claim)
        if isinstance(finished, FinishedClaim):
            made[claim.name] = new_claim(finished)
        else:
            errors |= {candidate.pod.key: PodError(finished) for candidate in claim.pods}
    names = list(made)
    return Provisioning(
        tuple(made.values()),
        tuple([names.index(claim.name) for claim in solver.claims if claim.name in made]),
        {
            node.state.name: tuple([one.pod.key for one in node.pods])
            for node in solver.nodes.hosts
            if node.pods
        },
        errors,
        view.ignored,
        {key: tuple(texts) for key, texts in solver.relaxations.items()},
        view.templates[1],
        view.options.seed,
    )
