"""What may be asked of a cluster, and how answers look: as types, as pages and as pictures.

Questions about plans leave the scheduler as it was. Users call them as methods of `Scheduler`; here are the
types of the answers. The names are imported when they are first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answer_pages import answer_page as answer_page
    from .answer_pages import capacity_page as capacity_page
    from .answer_pages import comparison_page as comparison_page
    from .answer_pages import explanation_page as explanation_page
    from .answer_pages import simulation_page as simulation_page
    from .difference import Difference as Difference
    from .figures import node_figure as node_figure
    from .figures import picture as picture
    from .new_nodes import NodesNeeded as NodesNeeded
    from .node_count import NodeBound as NodeBound
    from .node_emptying import Aim as Aim
    from .node_emptying import EmptyingPlan as EmptyingPlan
    from .node_room import Holder as Holder
    from .node_room import Room as Room
    from .node_use import current_use as current_use
    from .page import Fact as Fact
    from .page import Facts as Facts
    from .page import Page as Page
    from .placement_bound import Bound as Bound
    from .placement_bound import Price as Price
    from .pod_moves import Blocker as Blocker
    from .pod_moves import Move as Move
    from .survival import Loss as Loss
    from .survival import LostPod as LostPod
    from .survival import Survival as Survival
    from .template_capacity import Binding as Binding
    from .template_capacity import Capacity as Capacity
    from .template_capacity import TemplateCapacity as TemplateCapacity

_MODULES = {
    "Aim": "node_emptying",
    "Binding": "template_capacity",
    "Blocker": "pod_moves",
    "Bound": "placement_bound",
    "Capacity": "template_capacity",
    "Difference": "difference",
    "EmptyingPlan": "node_emptying",
    "Fact": "page",
    "Facts": "page",
    "Holder": "node_room",
    "Loss": "survival",
    "LostPod": "survival",
    "Move": "pod_moves",
    "NodeBound": "node_count",
    "NodesNeeded": "new_nodes",
    "Page": "page",
    "Price": "placement_bound",
    "Room": "node_room",
    "Survival": "survival",
    "TemplateCapacity": "template_capacity",
    "answer_page": "answer_pages",
    "capacity_page": "answer_pages",
    "comparison_page": "answer_pages",
    "current_use": "node_use",
    "explanation_page": "answer_pages",
    "node_figure": "figures",
    "picture": "figures",
    "simulation_page": "answer_pages",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
