"""Results of plugins as kube-scheduler-simulator writes them into annotations of pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from moorage.explain.situations import Turns
from moorage.facade import Scheduler
from moorage.framework.plugin.interface import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.framework.profiles.profile import Profile
from moorage.objects import Pod
from moorage.objects.read.snapshots import SIMULATOR_KINDS
from moorage.objects.read.write import object_to_dict
from moorage.scheduler.cycle.results import Examination
from moorage.scheduler.loop import Loop

PREFIX = "kube-scheduler-simulator.sigs.k8s.io/"
PASSED, SUCCESS = "passed", "success"
Results = dict[str, str]
"""Annotation to value, of one attempt."""


class AnnotatedRun:
    """A run that examines each pod right before each attempt to place it.

    Attributes
    ----------
    scheduler : Scheduler
    loop : Loop
        Its result is that of the run.
    attempts : dict of str to list of Results
        By ``namespace/name`` of the pod, what the plugins said in each attempt. What follows the choice of a
        node is in the last one.
    """

    scheduler: Scheduler
    loop: Loop

    def __init__(self) -> None:
        self.attempts: dict[str, list[Results]] = {}

    def over(self, scheduler: Scheduler) -> Loop:
        """Return the loop of the run over a scheduler."""
        self.scheduler, self.loop = scheduler, Turns(scheduler, before=self._examine).loop
        return self.loop

    def _examine(self, key: str) -> None:
        """Examine a pod that is about to be tried."""
        pod = self.scheduler.pods.pending[key]
        with self.scheduler.cache.lock:
            profile = self.scheduler.context.engine_for(pod).profile
        found = examined(profile, self.scheduler.examine(pod))
        self.attempts.setdefault(key, []).append(found)

    def annotations(self, pod: Pod) -> Mapping[str, str]:
        """Return the annotations of a pod after the run.

        Returns
        -------
        mapping of str to str
            Empty for a pod that was not tried.
        """
        attempts = self.attempts.get(pod.key)
        if attempts is None:
            return {}
        with self.scheduler.cache.lock:
            profile = self.scheduler.context.engine_for(pod).profile
        node = self.loop.result.placements.get(pod.key, "")
        victims = sorted({one.node for one in self.loop.result.evicted.values() if one.by == pod.key})
        last = attempts[-1] | ended(profile, node, victims)
        history = [*({**one, **ended(profile, "", [])} for one in attempts[:-1]), last]
        return last | {f"{PREFIX}result-history": _text(history)}


def exported(run: AnnotatedRun) -> dict[str, Any]:
    """Return the cluster after a run, in the form that kube-scheduler-simulator imports.

    Parameters
    ----------
    run : AnnotatedRun
        Ended.

    Returns
    -------
    dict
        A JSON value: objects by kind, pods with the annotations of the run.
    """
    client = run.scheduler.client
    out: dict[str, Any] = {"schedulerConfig": None}
    for name, kind in SIMULATOR_KINDS.items():
        objects: list[Any] = client.list(kind)[0]
        if kind == "Pod":
            objects = [_annotated(one, run.annotations(one)) for one in objects]
        out[name] = [object_to_dict(one) for one in objects]
    return out


def _annotated(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    metadata = replace(pod.metadata, annotations={**pod.metadata.annotations, **annotations})
    return replace(pod, metadata=metadata) if annotations else pod


def examined(profile: Profile, found: Examination) -> Results:
    """Return what plugins say up to the scores of nodes.

    Returns
    -------
    dict of str to str
        A filter that rejects a node is the last one that is asked about it. A plugin that returned Skip at
        PreFilter or PreScore has "" there, and is not asked later.
    """
    outcome = found.pre_filter
    rejects = outcome is not None and outcome.node_names is None
    status: dict[str, str] = {}
    for name in _names(profile, PreFilterPlugin):
        if outcome is not None and rejects and name == outcome.plugin:
            status[name] = ", ".join(outcome.reasons)
            break
        status[name] = "" if name in found.skipped_filter else SUCCESS
    narrowed = {} if outcome is None or rejects else dict.fromkeys(outcome.plugins, outcome.node_names or [])
    filters = [name for name in _names(profile, FilterPlugin) if name not in found.skipped_filter]
    nodes = {} if rejects else {node: dict.fromkeys(filters, PASSED) for node in found.feasible}
    for node, rejection in found.rejected.items():
        before = filters[: filters.index(rejection.plugin)] if rejection.plugin in filters else []
        nodes[node] = dict.fromkeys(before, PASSED) | {rejection.plugin: ", ".join(rejection.reasons)}
    several = len(found.feasible) > 1  # a single node is not scored
    pre_score = _names(profile, PreScorePlugin) if several else []
    skipped = found.skipped_score
    return {
        f"{PREFIX}prefilter-result-status": _text(status),
        f"{PREFIX}prefilter-result": _text(narrowed),
        f"{PREFIX}filter-result": _text(nodes),
        f"{PREFIX}prescore-result": _text({name: "" if name in skipped else SUCCESS for name in pre_score}),
        f"{PREFIX}score-result": _text(_scores(found, found.raw, {}) if several else {}),
        f"{PREFIX}finalscore-result": _text(
            _scores(found, found.normalized, _weights(profile)) if several else {}
        ),
    }


def ended(profile: Profile, node: str, victims: list[str]) -> Results:
    """Return what follows the search.

    Parameters
    ----------
    node : str
        The node on which the pod is placed; "" for none.
    victims : list of str
        Nodes from which pods were evicted for it.
    """

    def all_of(kind: type[Plugin]) -> str:
        return _text(dict.fromkeys(_names(profile, kind), SUCCESS) if node else {})

    preempted = {one: {"DefaultPreemption": "preemption victim"} for one in victims}
    binders = _names(profile, BindPlugin)[:1] if node else []
    return {
        f"{PREFIX}postfilter-result": _text(preempted),
        f"{PREFIX}reserve-result": all_of(ReservePlugin),
        f"{PREFIX}permit-result": all_of(PermitPlugin),
        f"{PREFIX}permit-result-timeout": "{}",
        f"{PREFIX}prebind-result": all_of(PreBindPlugin),
        f"{PREFIX}bind-result": _text(dict.fromkeys(binders, SUCCESS)),
        f"{PREFIX}selected-node": node,
    }


def _names(profile: Profile, kind: type[Any]) -> list[str]:
    return [plugin.name for plugin in profile.at(kind)]


def _weights(profile: Profile) -> dict[str, int]:
    return {plugin.name: profile.weight(plugin) for plugin in profile.at(ScorePlugin)}


def _scores(found: Examination, scores: Mapping[str, Any], weights: Mapping[str, int]) -> dict[str, Any]:
    """Return scores of plugins by node, as texts."""
    return {
        node: {name: str(int(of[at]) * weights.get(name, 1)) for name, of in scores.items()}
        for at, node in enumerate(found.feasible)
    }


def _text(value: object) -> str:
    """Return a value as JSON; names in their order, as Go writes maps."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
