"""Which nodes come for pods that wait, and which go, as autoscalers decide it.

The names are imported when they are first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .consolidation_rounds import Consolidation as Consolidation
    from .consolidation_rounds import RemovalStep as RemovalStep
    from .group_settings import GroupSettings as GroupSettings
    from .group_settings import NodeGroup as NodeGroup
    from .group_settings import ScaleDown as ScaleDown
    from .karpenter.karpenter_options import KarpenterOptions as KarpenterOptions
    from .karpenter.new_nodes_result import Launch as Launch
    from .karpenter.new_nodes_result import NewClaim as NewClaim
    from .karpenter.new_nodes_result import PodError as PodError
    from .karpenter.new_nodes_result import Provisioning as Provisioning
    from .karpenter.new_nodes_result import TypePrice as TypePrice
    from .providers.instance_type import InstanceType as InstanceType
    from .providers.instance_type import Offering as Offering
    from .providers.instance_type import seen_types as seen_types
    from .providers.registrations import Registration as Registration
    from .providers.type_files import read_instance_types as read_instance_types
    from .scale_up_answer import NewNode as NewNode
    from .scale_up_answer import ScaleUp as ScaleUp
    from .scaling_rounds import Growth as Growth

_MODULES = {
    "Consolidation": "consolidation_rounds",
    "GroupSettings": "group_settings",
    "Growth": "scaling_rounds",
    "InstanceType": "providers.instance_type",
    "KarpenterOptions": "karpenter.karpenter_options",
    "Launch": "karpenter.new_nodes_result",
    "NewClaim": "karpenter.new_nodes_result",
    "NewNode": "scale_up_answer",
    "NodeGroup": "group_settings",
    "Offering": "providers.instance_type",
    "PodError": "karpenter.new_nodes_result",
    "Provisioning": "karpenter.new_nodes_result",
    "Registration": "providers.registrations",
    "RemovalStep": "consolidation_rounds",
    "ScaleDown": "group_settings",
    "ScaleUp": "scale_up_answer",
    "TypePrice": "karpenter.new_nodes_result",
    "read_instance_types": "providers.type_files",
    "seen_types": "providers.instance_type",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
