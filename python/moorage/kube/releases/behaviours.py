"""The behaviours and feature gates in which two releases differ, and releases with some of them switched.

The behaviours are the fields of `Release`; there is no other list of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from inspect import cleandoc

from msgspec import Struct

from .feature_gates import FeatureGates, gates_of
from .gate_effects import OF_THE_SCHEDULER, Effect
from .release import Release

NAMES = ("version", "patch")
"""The fields that name a release. Its table of gates is found by them, so they are not switched."""


class Behaviour(Struct, frozen=True):
    """A field of `Release`, or a feature gate, that two releases do not have alike.

    Attributes
    ----------
    name : str
        The field, such as ``image_volumes``, or the gate, such as ``StorageCapacityScoring``.
    is_gate : bool
    before, after : object
        The value in each release.
    text : str
        What it is, in a sentence or two; "" where Python has dropped docstrings.
    """

    name: str
    is_gate: bool
    before: object
    after: object
    text: str

    @property
    def values(self) -> tuple[str, str]:
        """The two values as text; of collections, what the other one has not."""
        return _value(self.before, self.after), _value(self.after, self.before)


def differing(before: FeatureGates, after: FeatureGates) -> list[Behaviour]:
    """Return the behaviours and gates that two sets of feature gates, each of its release, do not have alike.

    Returns
    -------
    list of Behaviour
        Fields of `Release` in their order, then gates by name. Not gates that nothing reads; nor gates that
        one release has locked and the other one no longer has, or not yet.
    """
    texts, releases = described(), (before.release, after.release)
    found = [
        Behaviour(name, False, values[0], values[1], texts.get(name, ""))
        for name in (field.name for field in fields(Release))
        if name not in NAMES and len(set(values := [getattr(one, name) for one in releases])) > 1
    ]
    for name, (effect, text) in sorted(OF_THE_SCHEDULER.items()):
        if effect is Effect.BUILT and before[name] != after[name] and not _is_settled(name, releases):
            found.append(Behaviour(name, True, before[name], after[name], text))
    return found


def switched(before: FeatureGates, after: FeatureGates, names: Collection[str]) -> FeatureGates:
    """Return the gates and the release of `before`, with some behaviours as in `after`.

    Parameters
    ----------
    names : collection of str
        Names of `differing` behaviours.

    Returns
    -------
    FeatureGates
        For a `Scheduler`. A gate is switched by itself, whether or not those that it needs are on.
    """
    of_release = {field.name for field in fields(Release)}.intersection(names)
    release = replace(before.release, **{name: getattr(after.release, name) for name in sorted(of_release)})
    gates = {name: after[name] for name in names if name not in of_release}
    return FeatureGates({**before.by_name, **gates}, release)


def described() -> dict[str, str]:
    """Return what the docstring of `Release` tells of each field.

    Returns
    -------
    dict of str to str
        Empty where Python has dropped docstrings.
    """
    text = cleandoc(Release.__doc__ or "").partition("----------\n")[2]
    found = re.findall(r"^(\w+) : \w[^\n]*\n((?: {4}[^\n]*\n?)+)", text, re.MULTILINE)
    return {name: " ".join(body.split()) for name, body in found}


def _is_settled(name: str, releases: Iterable[Release]) -> bool:
    """Whether one release does not have a gate, because another one has locked it."""
    found = [gates_of(release).get(name) for release in releases]
    return None in found and any(gate is not None and gate.is_locked for gate in found)


def _value(value: object, other: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | frozenset) and isinstance(other, tuple | frozenset):
        return ", ".join(one for one in sorted(value) if one not in other) or "-"
    return str(value) or "-"
