from typing import NamedTuple

from moorage._core.base.symbols import Symbols
from moorage.kube.model.pod import NodeSelectorRequirement, NodeSelectorTerm, PodSpec

class Requirement(NamedTuple):
    column: int
    op: int
    values: tuple[int, ...]
    number: int

def label_requirement(
    symbols: Symbols, label_keys: Symbols, key: str, operator: str, values: tuple[str, ...]
) -> Requirement: ...
def compiled_term(
    symbols: Symbols, label_keys: Symbols, term: NodeSelectorTerm, is_pinned: bool
) -> tuple[Requirement, ...]: ...
def requirements_of(term: NodeSelectorTerm) -> tuple[NodeSelectorRequirement, ...]: ...
def term_error(term: NodeSelectorTerm) -> str | None: ...
def required_errors(spec: PodSpec) -> tuple[str, ...]: ...
