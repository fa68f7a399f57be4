"""Requirements on several labels, and whether nodes or claims with them could meet others.

Rules: Karpenter v1.15.0, pkg/scheduling/requirements.go. Equal sets are one object, which remembers what it
was compared and met with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from moorage.autoscalers.providers.registrations import CORE, NOTHING, Registration
from moorage.kube import NodeSelectorRequirement
from moorage.kube.model.autoscaling import NodeRequirement
from moorage.kube.model.node import HOSTNAME

from .requirement import EXCLUDING, INTEGER, LAST, Key, Requirement


class RequirementSet(Struct, eq=False):
    """Requirements by label."""

    vocabulary: Vocabulary
    by_key: Mapping[str, Requirement]
    has_min_values: bool
    _compatible: dict[tuple[RequirementSet, bool], str] = msgspec.field(default_factory=dict)
    _intersects: dict[RequirementSet, bool] = msgspec.field(default_factory=dict)
    _met: dict[RequirementSet, RequirementSet] = msgspec.field(default_factory=dict)

    def meet(self, other: RequirementSet) -> RequirementSet:
        """What meets both."""
        found = self._met.get(other)
        if found is None:
            found = self._met[other] = self.vocabulary.set_of([*self.by_key.values(), *other.by_key.values()])
        return found

    def having(self, requirement: Requirement) -> RequirementSet:
        """These with one requirement in place of that on its label."""
        return self.vocabulary.interned(dict(self.by_key) | {requirement.key.name: requirement})

    def without(self, name: str) -> RequirementSet:
        if name not in self.by_key:
            return self
        return self.vocabulary.interned({key: one for key, one in self.by_key.items() if key != name})

    def get(self, name: str) -> Requirement:
        """The requirement on a label; Exists if there is none."""
        return self.by_key.get(name) or self.vocabulary.key(name).exists

    def intersects(self, other: RequirementSet) -> bool:
        """Whether all labels that both name have values that meet both."""
        found = self._intersects.get(other)
        if found is None:
            found = self._intersects[other] = not self._clashes(other)
        return found

    def _clashes(self, other: RequirementSet) -> list[str]:
        clashes = []
        for name in sorted(self.by_key.keys() & other.by_key.keys()):
            ours, theirs = self.by_key[name], other.by_key[name]
            if ours.intersects(theirs) or (ours.operator in EXCLUDING and theirs.operator in EXCLUDING):
                continue
            clashes.append(f"key {name}, {theirs} not in {ours}")
        return clashes

    def refusal(self, other: RequirementSet, undefined: bool) -> str:
        """Why nothing with these requirements can meet others; "" if it could.

        Parameters
        ----------
        undefined : bool
            Whether well known labels that these requirements do not name can still become anything.
        """
        asked = (other, undefined)
        found = self._compatible.get(asked)
        if found is None:
            found = self._compatible[asked] = self._refusal(other, undefined)
        return found

    def _refusal(self, other: RequirementSet, undefined: bool) -> str:
        known = self.vocabulary.well_known if undefined else ()
        for name in sorted(other.by_key.keys() - self.by_key.keys()):
            if name not in known and other.by_key[name].operator not in EXCLUDING:
                return f'label "{name}" does not have known values{self._hint(name, known)}'
        return "; ".join(self._clashes(other))

    def _hint(self, name: str, known: Iterable[str]) -> str:
        """The label that was probably meant."""
        before, slash, after = name.partition("/")
        suffix = after if slash else before
        for label in (*sorted(known), *sorted({*self.by_key, HOSTNAME})):
            if name in label or label.endswith(suffix):
                return f' (typo of "{label}"?)'
        return ""

    def __str__(self) -> str:
        """As Karpenter's messages show them: without the name of the host."""
        return ", ".join(sorted(str(one) for name, one in self.by_key.items() if name != HOSTNAME))


class Vocabulary:
    """All labels, values and sets of requirements of one pass.

    Parameters
    ----------
    provider : Registration
        What Karpenter knows by its provider.
    """

    def __init__(self, provider: Registration = NOTHING) -> None:
        self.registration = CORE | provider
        self.well_known = self.registration.known
        self._keys: dict[str, Key] = {}
        self._sets: dict[frozenset[Requirement], RequirementSet] = {}
        self.empty = self.interned({})

    def key(self, name: str) -> Key:
        """A label, under the name as which it is read."""
        name = self.registration.key(name)
        found = self._keys.get(name)
        if found is None:
            found = self._keys[name] = Key(name)
        return found

    def requirement(
        self, name: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
    ) -> Requirement:
        """A requirement as written in an object."""
        key, values = self.key(name), tuple(values)
        match operator:
            case "In":
                return key.requirement(False, key.mask(values), min_values=min_values)
            case "NotIn":
                return key.requirement(True, key.mask(values), min_values=min_values)
            case "DoesNotExist":
                return key.requirement(False, 0, min_values=min_values)
            case "Gt" | "Lt" | "Gte" | "Lte":
                number = _bound(values[0] if values else "")
                if operator == "Gt" and number == LAST:
                    return key.requirement(False, 0)
                if operator in ("Gt", "Gte"):
                    gte = number + (operator == "Gt")
                    return key.requirement(True, 0, gte=gte, min_values=min_values)
                lte = number - (operator == "Lt")
                return key.requirement(True, 0, lte=lte, min_values=min_values)
        return key.requirement(True, 0, min_values=min_values)

    def of_labels(self, labels: Mapping[str, str]) -> RequirementSet:
        return self.set_of([self.requirement(name, "In", (value,)) for name, value in labels.items()])

    def of_terms(self, terms: Iterable[NodeSelectorRequirement | NodeRequirement]) -> RequirementSet:
        return self.set_of([self.requirement(one.key, one.operator, one.values) for one in terms])

    def set_of(self, requirements: Iterable[Requirement]) -> RequirementSet:
        """Requirements together; several on one label are met."""
        by_key: dict[str, Requirement] = {}
        for one in requirements:
            before = by_key.get(one.key.name)
            by_key[one.key.name] = one if before is None else one.meet(before)
        return self.interned(by_key)

    def interned(self, by_key: dict[str, Requirement]) -> RequirementSet:
        whole = frozenset(by_key.values())
        found = self._sets.get(whole)
        if found is None:
            least = any(one.min_values is not None for one in by_key.values())
            found = self._sets[whole] = RequirementSet(self, by_key, least)
        return found


def _bound(text: str) -> int:
    """The bound that Karpenter reads from a text: 0 from no number, the last number from a larger one."""
    return max(-LAST - 1, min(LAST, int(text))) if text.isascii() and INTEGER.fullmatch(text) else 0
