from typing import NamedTuple

from moorage._core.base.quantity import Quantity
from moorage.kube.model.pod import Pod

DEFAULT_MILLI_CPU: Quantity
DEFAULT_MEMORY: Quantity
ZERO: Quantity
NON_ZERO: dict[str, Quantity]

class PodGates(NamedTuple):
    pod_level_resources: bool = True
    pod_level_resizing: bool = True
    comparison_operators: bool = False
    match_label_keys: bool = True
    node_allocatable_claims: bool = False
    resizes_by_sums: bool = False
    image_volumes: str = "size"
    namespaces_by_value: bool = True
    scores_effective_requests: bool = False
    empty_selectors_spread: bool = False
    budgets_select_as_written: bool = False
    victims_tie_by_uid: bool = False
    quantities_saturate: bool = False
    sums_saturate: bool = False

DEFAULT_GATES: PodGates
CONTAINERS_ALONE: PodGates

def is_counted(name: str) -> bool: ...
def is_infeasible(pod: Pod) -> bool: ...
def pod_requests(
    pod: Pod,
    gates: PodGates | None = None,
    missing: dict[str, Quantity] | None = None,
    resizes: bool = True,
    claims: bool = False,
) -> dict[str, Quantity]: ...
def pod_level_requests(pod: Pod, resizes: bool = False, by_sums: bool = False) -> dict[str, Quantity]: ...
def nonzero_requests(
    pod: Pod, requests: dict[str, Quantity], gates: PodGates | None = None
) -> dict[str, Quantity]: ...
