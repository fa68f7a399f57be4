"""What may be asked of a cluster, and how answers look: as types, as pages and as pictures.

Questions about plans leave the scheduler as it was. Users call them as methods of `Scheduler`; here are the
types of the answers. The names are imported when they are first used (PEP 562).
"""

from typing import TYPE_CHECKING

from moorage.lazy import names_at_first_use

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
    from .nodes.device_use import DeviceShare as DeviceShare
    from .nodes.device_use import DeviceUse as DeviceUse
    from .nodes.node_room import Holder as Holder
    from .nodes.node_room import NamespaceUse as NamespaceUse
    from .nodes.node_room import Room as Room
    from .nodes.node_room import WorkloadUse as WorkloadUse
    from .nodes.node_use import current_use as current_use
    from .page import KeyFigure as KeyFigure
    from .page import KeyFigures as KeyFigures
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
else:
    __getattr__, __dir__, __all__ = names_at_first_use(
        __name__,
        {
            ".answer_pages": "answer_page capacity_page comparison_page explanation_page simulation_page",
            ".nodes.device_use": "DeviceShare DeviceUse",
            ".difference": "Difference",
            ".figures": "node_figure picture",
            ".new_nodes": "NodesNeeded",
            ".node_count": "NodeBound",
            ".node_emptying": "Aim EmptyingPlan",
            ".nodes.node_room": "Holder NamespaceUse Room WorkloadUse",
            ".nodes.node_use": "current_use",
            ".page": "KeyFigure KeyFigures Page",
            ".placement_bound": "Bound Price",
            ".pod_moves": "Blocker Move",
            ".survival": "Loss LostPod Survival",
            ".template_capacity": "Binding Capacity TemplateCapacity",
        },
    )
