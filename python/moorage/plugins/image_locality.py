"""ImageLocality: prefers nodes that already have the pod's images."""

from __future__ import annotations

from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import ScorePlugin


class ImageLocality(NativePlugin, ScorePlugin):
    """kube-scheduler v1.36, image_locality.go. Counts are those of the moment a node was last copied to the
    view."""

    name = "ImageLocality"
    default_weight = 1
