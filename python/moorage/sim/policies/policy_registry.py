"""The policies by the names that a configuration uses."""

from __future__ import annotations

from moorage.engine.framework import Registry

from .best_fit import BestFit
from .dot_product import DotProduct
from .fgd import FGD
from .gpu_clustering import GpuClustering
from .gpu_packing import GpuPacking
from .gpu_share import GpuShare
from .random_fit import RandomFit
from .tetris import Tetris
from .worst_fit import WorstFit

PLUGINS = (
    BestFit,
    DotProduct,
    FGD,
    GpuClustering,
    GpuPacking,
    GpuShare,
    RandomFit,
    Tetris,
    WorstFit,
)


def policies() -> Registry:
    """Return the policies as a registry, for ``Scheduler(registry=…)``."""
    return Registry({plugin.name: plugin for plugin in PLUGINS})
