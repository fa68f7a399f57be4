"""Reports of replays and sweeps, as pages and figures; `moorage.answers` has those of answers."""

from .history_charts import history_figure as history_figure
from .replay_page import history_page as history_page
from .replay_page import verification_page as verification_page
from .sweep_report import sweep_figure as sweep_figure
from .sweep_report import sweep_page as sweep_page
