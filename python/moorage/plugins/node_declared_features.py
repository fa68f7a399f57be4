"""NodeDeclaredFeatures: known by name only; it filters nothing for pods that need no declared feature."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod


class NodeDeclaredFeatures(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, SignPlugin):
    """kube-scheduler v1.36, nodedeclaredfeatures/."""

    name = "NodeDeclaredFeatures"
    feature_gate = "NodeDeclaredFeatures"

    def sign_pod(self, pod: Pod) -> None:
        """Nothing that pods hold here needs a declared feature."""
