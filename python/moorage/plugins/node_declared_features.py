"""NodeDeclaredFeatures: known by name only; it filters nothing for pods that need no declared feature."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin


class NodeDeclaredFeatures(UnbuiltPlugin, PreFilterPlugin, FilterPlugin):
    """kube-scheduler v1.36, nodedeclaredfeatures/."""

    name = "NodeDeclaredFeatures"
    feature_gate = "NodeDeclaredFeatures"
