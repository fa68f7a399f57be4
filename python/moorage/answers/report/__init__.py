"""Reports: answers as one HTML file, and as pictures. Pages are views of the documents of `-o json`.

Those of replays and sweeps are in `moorage.sim.report`.
"""

from .answer_page import answer_page as answer_page
from .capacity_page import capacity_page as capacity_page
from .comparison_page import comparison_page as comparison_page
from .explanation_page import explanation_page as explanation_page
from .figures import node_figure as node_figure
from .figures import picture as picture
from .node_use import current_use as current_use
from .page import Fact as Fact
from .page import Facts as Facts
from .page import Page as Page
from .simulation_page import simulation_page as simulation_page
