from typing import Any, NamedTuple

from moorage._core.base.resources import NON_ZERO as NON_ZERO
from moorage._core.base.resources import ZERO as ZERO
from moorage._core.base.sets import Taint, Toleration
from moorage._core.state.pod_class import PodClasses
from moorage.objects.model.pod import Pod, PodSpec

UNSCHEDULABLE: Taint
NODE_NAME_FIELD: str
OPERATORS: dict[str, int]

class Requirement(NamedTuple):
    column: int
    op: int
    values: tuple[int, ...]
    number: int

def encode(obj: Any, /) -> bytes: ...
def spec_key(pod: Pod) -> bytes: ...
def bound(pod: Pod, node_name: str) -> Pod: ...
def is_only_bound(pod: Pod, reported: Pod) -> bool: ...
def pinned_node(spec: PodSpec) -> str | None: ...
def required_node_names(spec: PodSpec) -> frozenset[str] | None: ...

class PodSpecReader:
    names: PodClasses
    key: tuple[Any, ...]
    needs: tuple[int, int]
    requests: tuple[int, int]
    score_requests: tuple[int, int]
    nonzero_requests: tuple[int, int]
    others: tuple[tuple[str, int, int, int, int], ...]
    tolerations: tuple[Toleration, ...]
    tolerates_unschedulable: bool
    ports: tuple[tuple[int, int, int], ...]
    images: tuple[int, ...]
    image_containers: int
    has_required: bool
    has_node_affinity: bool
    selector: tuple[Requirement, ...]
    is_pinned: bool
    names_conflict: bool
    node_names: frozenset[str] | None
    required: tuple[tuple[Requirement, ...], ...]
    has_preferred: bool
    preferred: tuple[tuple[int, tuple[Requirement, ...]], ...]
    preferred_error: str | None
    declares_affinity: bool
    ledger: int
    def __init__(self, pod: Pod, names: PodClasses) -> None: ...
