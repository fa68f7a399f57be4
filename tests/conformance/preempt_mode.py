"""Mode preempt: as full, and for a pod that fits nowhere who would be evicted for it, and where."""

from __future__ import annotations

from typing import Any

from tests.doors.answers import examine_preemption
from tests.doors.engine import schedule_one

from .world import World

Json = dict[str, Any]


def preempt(world: World, pod: Any, applies: bool) -> Json:
    """What preemption finds; unless told otherwise the victims go, and the pod takes their place."""
    engine = world.scheduler.context.engine_of(pod)
    seen = examine_preemption(engine, pod)
    found, choice = seen.dry_run, seen.choice
    result: Json = {
        "eligible": not found.message,
        "potential": list(found.potential),
        "candidates": {
            one.name: {
                "victims": [victim.key for victim in one.victims.pods],
                "pdbViolations": one.victims.num_pdb_violations,
            }
            for one in found.candidates
        },
        "rejected": {
            name: {"plugin": status.plugin, "code": int(status.code), "reasons": list(status.reasons)}
            for name, status in found.rejected.items()
        },
    }
    if found.message:
        result["message"] = found.message
    if choice is None:
        return result | whole_message(world, pod)
    result |= {"tied": list(choice.tied), "chosen": choice.candidate.name}
    if len(choice.tied) == 1:
        result["upstream"] = choice.candidate.name
    if applies:
        for victim in choice.candidate.victims.pods:
            world.remove_pod(victim.key)
        world.place(pod, choice.candidate.name)
    return result


def whole_message(world: World, pod: Any) -> Json:
    """What a real cycle says about a pod for which nobody can be evicted."""
    decision = schedule_one(world.scheduler.context, pod)
    assert decision.node is None
    assert not decision.evicts
    assert decision.diagnosis is not None
    return {"postFilter": decision.diagnosis.post_filter_message(), "fitError": decision.fit_error}
