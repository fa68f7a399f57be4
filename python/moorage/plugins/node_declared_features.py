"""NodeDeclaredFeatures: known by name only; it filters nothing for pods that need no declared feature."""

from __future__ import annotations

from moorage.framework.interface import FILTER, PRE_FILTER, UnbuiltPlugin


class NodeDeclaredFeatures(UnbuiltPlugin):
    """kube-scheduler v1.36, nodedeclaredfeatures/."""

    name = "NodeDeclaredFeatures"
    extension_points = (PRE_FILTER, FILTER)
    feature_gate = "NodeDeclaredFeatures"
