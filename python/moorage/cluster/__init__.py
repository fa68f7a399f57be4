"""A cluster in memory: the engine and the controllers around one store, and the verbs of a change.

The names are imported when they are first used (PEP 562).
"""

from typing import TYPE_CHECKING

from moorage.lazy import names_at_first_use

if TYPE_CHECKING:
    from .cluster_changes import ChangingScheduler as ChangingScheduler
    from .pod_scheduler import PodScheduler as PodScheduler
    from .pod_scheduler import expanded as expanded
else:
    __getattr__, __dir__, __all__ = names_at_first_use(
        __name__,
        {".cluster_changes": "ChangingScheduler", ".pod_scheduler": "PodScheduler expanded"},
    )
