"""ImageLocality: prefers nodes that already have the pod's images."""

from __future__ import annotations

from moorage.framework.interface import SCORE, NativePlugin


class ImageLocality(NativePlugin):
    """kube-scheduler v1.36, image_locality.go. Counts are those of the moment a node was last copied to the
    view."""

    name = "ImageLocality"
    extension_points = (SCORE,)
    default_weight = 1
