"""NodeDeclaredFeatures: known by name only; it filters nothing for pods that need no declared feature."""

from __future__ import annotations

from moorage.framework.interface import FilterPlugin, PreFilterPlugin, UnbuiltPlugin


class NodeDeclaredFeatures(UnbuiltPlugin, PreFilterPlugin, FilterPlugin):
    """kube-scheduler v1.36, nodedeclaredfeatures/."""

    name = "NodeDeclaredFeatures"
    feature_gate = "NodeDeclaredFeatures"
