from datetime import UTC as UTC
from datetime import datetime, timedelta
from typing import Self

from moorage._core.state.ledger import Ledger
from moorage._core.state.node_table import NodeTable
from moorage._core.state.pod_class import PodClasses
from moorage.objects.model.pod import Pod

EPOCH: datetime
MICROSECOND: timedelta

def start_time(pod: Pod) -> int: ...

class Importance:
    def __new__(cls, table: NodeTable, classes: PodClasses, ledger: Ledger) -> Self: ...
