"""Simulations: timelines that are replayed, sweeps of replays, synthetic clusters, and summaries of runs.

The names are imported when they are first used (PEP 562).
"""

from typing import TYPE_CHECKING

from moorage.lazy import names_at_first_use

if TYPE_CHECKING:
    from moorage.answers.runs.summary import Summary as Summary
    from moorage.answers.runs.summary import summarize as summarize
else:
    __getattr__, __dir__, __all__ = names_at_first_use(
        __name__, {"moorage.answers.runs.summary": "Summary summarize"}
    )
