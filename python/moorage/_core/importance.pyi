from typing import Self

from moorage._core.ledger import Ledger
from moorage._core.node_table import NodeTable
from moorage._core.pod_class import PodClasses

class Importance:
    def __new__(cls, table: NodeTable, classes: PodClasses, ledger: Ledger) -> Self: ...
