from collections.abc import Mapping, Sequence
from datetime import UTC as UTC
from datetime import datetime, timedelta
from typing import Protocol, Self, type_check_only

import numpy as np
import numpy.typing as npt

from moorage._core.state.ledger import Ledger
from moorage._core.state.node_table import NodeTable
from moorage._core.state.pod_class import PodClasses
from moorage.kube.model.pod import Pod

EPOCH: datetime
MICROSECOND: timedelta

def start_time(pod: Pod) -> int: ...
def order_as_upstream(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]: ...

@type_check_only
class EvictedGroups(Protocol):
    ranks_members: bool
    @property
    def whole(self) -> Mapping[tuple[str, str], int]: ...
    @property
    def evicted_with(self) -> Mapping[tuple[str, str], tuple[str, str]]: ...
    def priorities(self) -> Mapping[tuple[str, str], int | None]: ...
    def priority_of(self, key: tuple[str, str]) -> int | None: ...
    def uids(self, key: tuple[str, str]) -> Sequence[str]: ...

class UnitIndex:
    def __new__(cls, table: NodeTable, classes: PodClasses, ledger: Ledger) -> Self: ...

class Importance:
    def __new__(cls, table: NodeTable, classes: PodClasses, ledger: Ledger) -> Self: ...
