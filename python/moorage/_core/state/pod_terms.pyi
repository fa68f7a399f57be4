from enum import IntEnum
from typing import Any, NamedTuple

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.kube.model.pod import Pod, PodAffinityTerm

class TermKind(IntEnum):
    AFFINITY = 0
    ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3

LISTS: tuple[str, ...]
FIELDS: str

class TermKey(NamedTuple):
    kind: Any
    weight: Any
    topology_key: Any
    namespaces: Any
    namespace_selector: Any
    selector: Any

class PodTerm:
    kind: TermKind
    weight: int
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelectorMatcher
    selector: LabelSelectorMatcher
    key: TermKey
    def __init__(self, kind: TermKind, weight: int, namespace: str, term: PodAffinityTerm) -> None: ...
    def matches(self, namespace: str, namespace_labels: dict[str, str], labels: dict[str, str]) -> bool: ...

def read_terms(pod: Pod) -> tuple[tuple[tuple[PodTerm, ...], ...], str]: ...
