"""Reports: results as one HTML file, and as pictures. Pages are views of the documents of `-o json`."""

from .answer_page import answer_page as answer_page
from .capacity_page import capacity_page as capacity_page
from .comparison_page import comparison_page as comparison_page
from .explanation_page import explanation_page as explanation_page
from .figures import history_figure as history_figure
from .figures import node_figure as node_figure
from .figures import picture as picture
from .figures import sweep_figure as sweep_figure
from .node_use import current_use as current_use
from .page import Fact as Fact
from .page import Facts as Facts
from .page import Page as Page
from .replay_page import history_page as history_page
from .replay_page import verification_page as verification_page
from .simulation_page import simulation_page as simulation_page
from .sweep_page import sweep_page as sweep_page
