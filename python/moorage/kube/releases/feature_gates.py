"""The feature gates of the releases, and what becomes of `--feature-gates`.

Included are all gates that kube-scheduler accepts: alpha and beta ones, which its ``--help`` lists, GA and
deprecated ones. ``gates/vX.Y.txt`` has them release by release: a gate per line, its stage, its default, and
the gates that it needs. ``python -m tests.house.gate_tables`` makes them from upstream's
``versioned_feature_list.yaml``, the gates of client-go, and the dependencies in ``kube_features.go``
(Apache-2.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.errors import InputError, located, nearest
from moorage.lazy import NamedTuple

from .release import DEFAULT, RELEASES, Release

if TYPE_CHECKING:
    from moorage._core.base.resources import PodGates

# ---- gate effects ------------------------------------------------------------------------------------------
#
# What feature gates do here, in whichever release has them, is in ``gates/effects.txt``. An alpha or beta
# gate of a release that is not named there is an error of `gates_of`.


class Effect(Enum):
    """The effect of setting a gate."""

    BUILT = "built"
    RULES = "rules"
    NONE = "no effect"
    NOT_BUILT = "not built"


PAST = frozenset({"GA", "Deprecated"})
"""The stages of gates that `OF_NO_INTEREST` stands for, unless they are named."""
OF_NO_INTEREST = (Effect.NONE, "Generally available or deprecated, and the scheduler does not read it.")

_FOLDER = Path(__file__).parent / "gates"


def _effects() -> tuple[dict[str, tuple[Effect, str]], dict[str, list[str]]]:
    read: dict[str, tuple[Effect, str]] = {}
    others: dict[str, list[str]] = {}
    for line in (_FOLDER / "effects.txt").read_text(encoding="ascii").splitlines():
        if not line.startswith(" "):  # it is about those below it
            effect, _, shared = line.partition(": ")
        elif shared:
            others.setdefault(shared, []).extend(line.split())
        else:
            name, _, reason = line.strip().partition(": ")
            read[name] = Effect(effect), reason
    return read, others


OF_THE_SCHEDULER, OF_OTHERS = _effects()
"""Effect and reason by gate, for those that kube-scheduler or something here reads; the others, by
reason."""
_EFFECTS = OF_THE_SCHEDULER | {
    name: (Effect.NONE, reason) for reason, names in OF_OTHERS.items() for name in names
}


# ---- feature gates -----------------------------------------------------------------------------------------


class Stage(Enum):
    """The maturity of a feature."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"
    DEPRECATED = "deprecated"


class Gate(NamedTuple):
    """A feature gate of a release.

    Attributes
    ----------
    default : bool
        The default in the release.
    effect : Effect
        Built: decisions depend on the gate. Rules: what the API server accepts depends on it. No effect: the
        gate is accepted, because no decision depends on it. Not built: any value but the default is refused.
    reason : str
        The effect of the gate, or why it has none.
    is_locked : bool
        Whether upstream refuses any value but the default.
    needs : tuple of str
        Gates that can be off, and must be on where this one is.
    """

    name: str
    stage: Stage
    default: bool
    effect: Effect
    reason: str
    is_locked: bool = False
    needs: tuple[str, ...] = ()


_STAGES = {"Alpha": Stage.ALPHA, "Beta": Stage.BETA, "GA": Stage.GA, "Deprecated": Stage.DEPRECATED}


@lru_cache(len(RELEASES))
def gates_of(release: Release) -> Mapping[str, Gate]:
    """Return the feature gates of a release.

    Returns
    -------
    mapping of str to Gate
        By name, sorted by name.
    """
    gates = {}
    for line in (_FOLDER / f"v{release.version}.txt").read_text(encoding="ascii").splitlines():
        name, stage, default, *more = line.split()
        effect, reason = (_EFFECTS.get(name) or OF_NO_INTEREST) if stage in PAST else _EFFECTS[name]
        if name in release.refused_gates:
            effect = Effect.NOT_BUILT
        needs = tuple(word.removeprefix("needs:") for word in more if word != "locked")
        gates[name] = Gate(name, _STAGES[stage], default == "on", effect, reason, "locked" in more, needs)
    return gates


GATES = gates_of(RELEASES[DEFAULT])
"""Gates of the default release by name, sorted by name."""


@dataclass(frozen=True, eq=False)
class FeatureGates(Mapping[str, bool]):
    """The value of each feature gate in a release, which does not change, as forks share it.

    Parameters
    ----------
    release : Release
        The release whose gates they are.
    """

    by_name: Mapping[str, bool]
    release: Release

    def __getitem__(self, name: str) -> bool:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)


@lru_cache(len(RELEASES))
def default_gates(release: Release) -> FeatureGates:
    """Return the default of each gate in a release.

    Returns
    -------
    FeatureGates
        Gates that the release does not have, and the scheduler reads in others, are off; those that an
        earlier release had locked stay as they were.
    """
    absent = dict.fromkeys(OF_THE_SCHEDULER, False)
    for earlier in takewhile(lambda each: each.version != release.version, RELEASES.values()):
        locked = [gate for gate in gates_of(earlier).values() if gate.is_locked]
        absent |= {gate.name: gate.default for gate in locked if gate.name in OF_THE_SCHEDULER}
    return FeatureGates(absent | {name: gate.default for name, gate in gates_of(release).items()}, release)


DEFAULT_GATES = default_gates(RELEASES[DEFAULT])
"""Default in the default release by gate."""

PART_OF = {"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"}
"""Gates that became part of others."""

ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Names that set all gates of a stage that are not set individually."""


def feature_gates(
    changes: Mapping[str, bool] | None = None, release: Release = RELEASES[DEFAULT]
) -> FeatureGates:
    """Return the values of all feature gates.

    Parameters
    ----------
    changes : mapping of str to bool or FeatureGates, optional
        Gates that differ from the defaults of the release; ``AllAlpha`` and ``AllBeta`` are accepted. All
        gates of some release are returned as they are.
    release : Release, optional
        The release of the changes.

    Returns
    -------
    FeatureGates
        Value by gate, as `default_gates` has them.

    Raises
    ------
    ValueError
        A gate is unknown or locked, needs others that are off, or a value is not a boolean (with upstream's
        message, and the releases that have the gate); or a value is not built.
    """
    if isinstance(changes, FeatureGates):
        return changes
    known, defaults = gates_of(release), default_gates(release)
    if not changes:
        return defaults
    gates = dict(defaults)
    for name, value in changes.items():
        if not is_gate(name, release):
            here = f"{release.version} decides here, and "
            others = [version for version, other in RELEASES.items() if name in gates_of(other)]
            hint = _built_in(name, release, here) if others else nearest(name, (*known, *ALL))
            if others and not hint:
                hint = f"; Kubernetes {here}{others[-1]} is the last with it"
            raise ValueError(f"unrecognized feature gate: {name}{hint}")
        if not isinstance(value, bool):
            raise ValueError(f"invalid value of {name}={value}, err: not a boolean")
    for every, stage in ALL.items():
        if every in changes:
            gates |= {name: changes[every] for name, gate in known.items() if gate.stage is stage}
    gates |= {name: value for name, value in changes.items() if name in known}
    for name, value in gates.items():
        if value != defaults[name]:
            _check(known[name], value, release)
    wrong = [text for gate in known.values() if gates[gate.name] and (text := _lacks(gate, gates))]
    if wrong:
        from ..field_errors import aggregate  # only errors need it

        raise ValueError(aggregate(wrong))
    return FeatureGates(gates, release)


def is_gate(name: str, release: Release) -> bool:
    """Whether a release has a gate, or a name sets all gates of a stage."""
    return name in ALL or name in gates_of(release)


def settable(changes: Mapping[str, bool], release: Release) -> dict[str, bool]:
    """Return the changes that `feature_gates` accepts for a release.

    Returns
    -------
    dict of str to bool
        The others cannot be set beside them: the release does not have them, or has only their defaults, or
        they need others that are off.
    """
    kept: dict[str, bool] = {}
    for name in [*changes] * len(changes):  # again and again: a gate may need one after it
        more = kept | {name: changes[name]}
        with suppress(ValueError):
            feature_gates(more, release)
            kept = more
    return kept


def dependents_off(changes: Mapping[str, bool], release: Release = RELEASES[DEFAULT]) -> dict[str, bool]:
    """Return, off, the gates that need another which changes switch off.

    Parameters
    ----------
    changes : mapping of str to bool
        Gates that differ from the defaults of the release.

    Returns
    -------
    dict of str to bool
        Only gates that are on by default and that the changes do not name.
    """
    gates = gates_of(release)

    def is_off(name: str) -> bool:
        return not changes[name] if name in changes else any(map(is_off, gates[name].needs))

    on = [name for name, gate in gates.items() if gate.default and name not in changes]
    return {name: False for name in on if is_off(name)}


def _lacks(gate: Gate, gates: Mapping[str, bool]) -> str:
    """Upstream's message about the gates that are off and that a gate needs; "" without such."""
    off = " ".join(name for name in gate.needs if not gates[name])
    return f"{gate.name} is enabled, but depends on features that are disabled: [{off}]" if off else ""


def _check(gate: Gate, value: bool, release: Release) -> None:
    default, text = str(gate.default).lower(), str(value).lower()
    if gate.is_locked:
        raise ValueError(f"cannot set feature gate {gate.name} to {text}, feature is locked to {default}")
    if gate.effect is Effect.NOT_BUILT:
        what = f"feature gate {gate.name}={text} cannot be set for Kubernetes {release.version}"
        raise ValueError(f"{what}: moorage has only its default, {default}{_built_in(gate.name, release)}")


def _built_in(name: str, release: Release, here: str = "") -> str:
    """Name the gate that a gate is part of now, or the releases that a gate is built for; "" for neither."""
    built = releases_with(now := PART_OF.get(name, name))
    if now != name and release.version in built:
        return f"; it is part of {now}"
    verb = "has" if len(built) == 1 else "have"
    known_as = "" if now == name else f" as {now}"
    return f"; Kubernetes {here}{', '.join(built)} {verb} it{known_as}" if built else ""


def releases_with(name: str) -> list[str]:
    """Return the releases that a gate is built for, the oldest first.

    Returns
    -------
    list of str
        For example "1.37".
    """
    gates = {version: gates_of(release).get(name) for version, release in RELEASES.items()}
    return [version for version, gate in gates.items() if gate is not None and gate.effect is Effect.BUILT]


def groups_pods(gates: Mapping[str, bool]) -> bool:
    """Whether the gate for pod groups, which all others need, is on; without it groups are ignored."""
    return gates["GenericWorkload"]


def pod_gates(gates: Mapping[str, bool], release: Release = RELEASES[DEFAULT]) -> PodGates:
    """Return what requests, tolerations, affinity and spread constraints of pods depend on.

    Returns
    -------
    PodGates
        Gates and behaviours in the form of the core.
    """
    from moorage._core.base.resources import PodGates

    return PodGates(
        pod_level_resources=gates["PodLevelResources"],
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        comparison_operators=gates["TaintTolerationComparisonOperators"],
        match_label_keys=gates["MatchLabelKeysInPodTopologySpread"],
        node_allocatable_claims=gates["DRANodeAllocatableResources"],
        resizes_by_sums=release.resizes_by_sums,
        image_volumes=release.image_volumes,
        namespaces_by_value=release.namespaces_by_value,
        scores_effective_requests=release.scores_effective_requests,
        empty_selectors_spread=release.empty_selectors_spread,
        budgets_select_as_written=release.budgets_select_as_written,
        victims_tie_by_uid=release.victims_tie_by_uid,
        quantities_saturate=release.quantities_saturate,
        sums_saturate=release.sums_saturate,
    )


def changed_gates(text: str) -> dict[str, bool]:
    """Return the gates of ``A=true,B=false``.

    Parameters
    ----------
    text : str
        Value of ``--feature-gates``.
    """
    changes: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        if value.lower() not in ("true", "false"):
            raise InputError(f"must be true or false, not {value!r}", source="--feature-gates", path=name)
        changes[name] = value.lower() == "true"
    return changes


def selected_gates(text: str, version: str | None) -> FeatureGates:
    """Return all feature gates of a release, with ``A=true,B=false`` changed; an unknown gate is an error.

    Parameters
    ----------
    text : str
        Value of ``--feature-gates``.
    version : str or None
        Value of ``--kubernetes-version``; None for the default release.

    Returns
    -------
    FeatureGates
        Value by gate, for a `Scheduler` of that release.
    """
    with located(ValueError, source="--feature-gates"):
        return feature_gates(changed_gates(text), RELEASES[version or DEFAULT])


# ---- conditions --------------------------------------------------------------------------------------------
#
# When a row of a table holds: in some releases, and as gates are set.

_WORDS = re.compile(r"; (since|until|on|off) ([\w.]+)$")


class Condition(NamedTuple):
    """When something holds; always, by default.

    Attributes
    ----------
    since, until : str
        The first and the last release, for example "1.36"; "" for any.
    on, off : tuple of str
        Feature gates that are on, and that are off or that the release lacks.
    """

    since: str = ""
    until: str = ""
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    def holds(self, gates: FeatureGates) -> bool:
        """Whether it holds for a release with its gates."""
        version = gates.release.version
        is_of_release = self.since <= version and (not self.until or version <= self.until)
        is_on = all(gates.get(name, False) for name in self.on)
        return is_of_release and is_on and not any(gates.get(name, False) for name in self.off)


ALWAYS = Condition()


def split_condition(row: str) -> tuple[str, Condition]:
    """Return a row of a table without the words at its end that say when it holds, and what they say:
    ``; since 1.37``, ``; until 1.36``, ``; on GATE``, ``; off GATE``."""
    words: dict[str, list[str]] = {"since": [""], "until": [""], "on": [], "off": []}
    while (match := _WORDS.search(row)) is not None:
        row = row[: match.start()]
        words[match[1]].append(match[2])
    when = Condition(words["since"][-1], words["until"][-1], tuple(words["on"]), tuple(words["off"]))
    return row, ALWAYS if when == ALWAYS else when
