"""Two Kubernetes releases over one cluster: the pods that differ, and the behaviours that do it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import Struct

from moorage.engine.framework.configuration import load_configuration
from moorage.engine.plugins.registry import in_tree
from moorage.errors import InputError, located, nearest
from moorage.kube import Cluster
from moorage.kube.read.files import read_file, source_name
from moorage.kube.releases import RELEASES, FeatureGates, release_named
from moorage.kube.releases.behaviours import Behaviour, Cause, differing, find_causes, switched
from moorage.kube.releases.feature_gates import is_gate, settable

from ..messages import Stages
from ..options.change_options import RequestedChange
from ..options.inputs import changed_gates, scheduler_settings, selected_gates
from .comparison import Alternative, without_bindings
from .simulation import Preparation

KUBERNETES = "kubernetes"
_EXAMPLE = "'kubernetes 1.36' 'kubernetes 1.37'"
MOVED, LOST, GAINED, OTHERWISE = "gets another node", "no longer fits", "now fits", "differs otherwise"
"""What becomes of a pod that is not in the same place in both releases."""
ORDER = (LOST, GAINED, MOVED, OTHERWISE)
"""The order in which differences are shown."""


class Side(NamedTuple):
    """One of the two releases that are compared.

    Attributes
    ----------
    version : str
    gates : str
        Feature gates of this side alone, as ``A=true,B=false``.
    """

    version: str
    gates: str = ""

    @property
    def name(self) -> str:
        """The alternative: ``kubernetes 1.37 GenericWorkload=true``."""
        return f"{KUBERNETES} {self.version} {self.gates}".rstrip()


@dataclass(frozen=True)
class Difference:
    """A pod that the two releases do not put into one place.

    Attributes
    ----------
    pod : str
        ``namespace/name``.
    change : str
        One of the constants of this module.
    places : tuple of str
        Its node or its status in each release; "" where there is no such pod.
    reason : str
        Why it has no node, where it has none, without what preemption adds; of the later release if it has
        none in either.
    cause : Cause
    """

    pod: str
    change: str
    places: tuple[str, str]
    reason: str
    cause: Cause


class ReleaseComparison(Struct, frozen=True):
    """What a change of the release changes.

    Attributes
    ----------
    before, after : Alternative
    from_scratch : bool
        Whether bound pods were placed anew; otherwise only pending ones were placed.
    tie_break : str
        How both choose among nodes of equal score, so that ties make no difference.
    behaviours : list of Behaviour
        What the two releases do not have alike.
    differences : list of Difference
        Pods that no longer fit first, then those that now fit; by pod.
    """

    before: Alternative
    after: Alternative
    from_scratch: bool
    tie_break: str
    behaviours: list[Behaviour]
    differences: list[Difference]

    @property
    def basis(self) -> str:
        """Which pods were placed, in a sentence."""
        if self.from_scratch:
            what = "All pods were placed anew, by priority and age; mirror pods stayed."
        else:
            what = "Pending pods were placed; bound pods stayed, --from-scratch places them anew."
        return f"{what} Both releases choose alike among nodes of equal score ({self.tie_break})."

    @property
    def effective(self) -> list[Behaviour]:
        """The behaviours that a cause names."""
        causes = (one.cause for one in self.differences)
        named = {name for cause in causes for names in cause.alternatives for name in names}
        return [one for one in self.behaviours if one.name in named]

    def losses(self) -> dict[str, str]:
        """Return, by pod, what makes the difference for those that no longer fit."""
        return {one.pod: one.cause.text for one in self.differences if one.change == LOST}

    def without_node(self) -> set[str]:
        """Return the pods of the later release's run that have no node in the earlier one's, each as
        `Outcome.key`."""
        pods = {one.key for one in self.after.simulation.outcomes}
        return pods - self.before.nodes.keys()


def releases_named(alternatives: Sequence[str]) -> tuple[Side, Side] | None:
    """Return the two releases that ``kubernetes 1.35`` and ``kubernetes 1.37 GenericWorkload=true`` name.

    Parameters
    ----------
    alternatives : sequence of str
        The arguments of the command.

    Returns
    -------
    (Side, Side) or None
        None where no argument names a release.

    Raises
    ------
    InputError
        A release is not known, or the arguments are not two releases or one with two sets of gates.
    """
    named = {text: _side(text) for text in alternatives if text.lower().split()[:1] == [KUBERNETES]}
    if not named:
        return None
    for other in alternatives:
        if other not in named:
            near = nearest(other, named)
            raise InputError(f"not a release: give two, as {_EXAMPLE}{near}", source=repr(other))
    if len(alternatives) != 2:
        raise InputError(f"give two releases, as {_EXAMPLE}, and not {len(alternatives)}")
    first, last = (named[text] for text in alternatives)
    if first == last:
        hint = f"give two, as {_EXAMPLE}, or one with other feature gates"
        raise InputError(f"both are release {first.version}: {hint}", source=repr(alternatives[1]))
    return first, last


def _side(text: str) -> Side:
    """Return the release of ``kubernetes 1.36``, or of ``kubernetes 1.37 A=true,B=false``."""
    words = text.split()
    with suppress(ValueError):
        if len(words) in (2, 3):
            return Side(release_named(words[1]).version, *words[2:])
    known = f"kubernetes and one of {', '.join(RELEASES)}"
    raise InputError(f"not a release: give {known}, and feature gates as A=true,B=false", source=repr(text))


def compare_releases(
    sides: tuple[Side, Side],
    cluster: Cluster,
    options: Mapping[str, Any],
    changes: Sequence[RequestedChange] = (),
    from_scratch: bool = False,
    stages: Stages | None = None,
) -> ReleaseComparison:
    """Place the pods of one cluster as two releases do, and find what makes the differences.

    Parameters
    ----------
    options : mapping of str to object
        The values of `scheduler_options`.
    changes : sequence of RequestedChange, optional
        Changes of the cluster, made in this order.
    from_scratch : bool, optional
        Whether bound pods are placed anew.
    stages : Stages, optional
        Shows how many of the runs with one behaviour switched are done.

    Raises
    ------
    InputError
        The configuration is not valid, or a release does not have a feature gate.
    """
    before, after = (_gates(options, side) for side in sides)
    tie_break = _common_tie_break(options, before, after)
    settings = _settings_of({**options, "version": sides[1].version, "tie_break": tie_break})
    if from_scratch:
        cluster = without_bindings(cluster)
    behaviours = differing(before, after)
    names = [one.name for one in behaviours]
    ends: dict[bool, Alternative] = {}
    runs: list[Collection[str]] = []
    if stages is not None:
        stages.count(len(names) + 2, lambda: len(runs))

    def run(switches: Collection[str]) -> Mapping[str, str]:
        runs.append(switches)
        is_after = len(switches) == len(names)
        gates = after if is_after else switched(before, after, switches)
        done = Alternative(sides[is_after].name, Preparation(cluster, settings(gates), changes).run())
        if is_after or not switches:
            ends[is_after] = done
        return done.places

    causes = find_causes(run, names)
    last = ends[True]
    first = ends.get(False) or Alternative(sides[0].name, last.simulation)
    found = [_difference(key, first, last, cause) for key, cause in causes.items()]
    found.sort(key=lambda one: ORDER.index(one.change))
    return ReleaseComparison(first, last, from_scratch, tie_break, behaviours, found)


def _gates(options: Mapping[str, Any], side: Side) -> FeatureGates:
    with located(obj=f"{KUBERNETES} {side.version}"):
        return selected_gates(f"{options['gates']},{side.gates}", side.version)


def sides_of_upgrade(first: str, last: str, gates: str) -> tuple[Side, Side, list[str]]:
    """Return the sides of an upgrade. The feature gates are those of the later release, and the earlier one
    decides with those of them that can be set for it.

    Parameters
    ----------
    first, last : str
        The releases.
    gates : str
        Value of ``--feature-gates``.

    Returns
    -------
    warnings : list of str
        A sentence about each of the others; not about gates that the earlier release does not have and that
        are switched off.
    """
    changes, release = changed_gates(gates), RELEASES[first]
    kept = settable(changes, release)
    texts = {name: f"{name}={str(value).lower()}" for name, value in changes.items()}
    warnings = [
        f"Kubernetes {first} decides without {text}: moorage cannot set this gate for that release."
        for name, text in texts.items()
        if name not in kept and (changes[name] or is_gate(name, release))
    ]
    common = ",".join(text for name, text in texts.items() if name in kept)
    return Side(first, common), Side(last, gates), warnings


def _common_tie_break(options: Mapping[str, Any], *releases: FeatureGates) -> str:
    """How both choose among nodes of equal score: by the seed only if both do, or the user asks for it."""
    kinds = {gates.release.tie_break for gates in releases}
    chosen: str = options["tie_break"] or min(kinds, key=lambda kind: (kind == "random", kind))
    return chosen


def _settings_of(options: Mapping[str, Any]) -> Callable[[FeatureGates], dict[str, Any]]:
    """Return what makes the keyword arguments of a `Scheduler` with other gates; the configuration, which may
    be standard input, is read once."""
    file, settings = options["config"], scheduler_settings({**options, "config": None})
    text = None if file is None else read_file(file)

    def with_gates(gates: FeatureGates) -> dict[str, Any]:
        if text is None:
            return settings | {"feature_gates": gates}
        plugins = in_tree(gates.release)
        config = load_configuration(text, plugins, feature_gates=gates, name=source_name(file))
        return settings | {"feature_gates": gates, "config": config}

    return with_gates


def _difference(key: str, before: Alternative, after: Alternative, cause: Cause) -> Difference:
    places = before.places.get(key, ""), after.places.get(key, "")
    has_node = key in before.nodes, key in after.nodes
    change = {(True, True): MOVED, (True, False): LOST, (False, True): GAINED}.get(has_node, OTHERWISE)
    without = before if change == GAINED else after
    return Difference(key, change, places, without.reasons.get(key, ""), cause)
