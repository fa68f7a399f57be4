"""ImageLocality: prefers nodes that have the container images of the pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage._core.state.images import normalized_image_name
from moorage.engine import framework as fwk
from moorage.kube import Pod

from ..framework.profiles.in_core import InTreePlugin


class ImageLocality(InTreePlugin, fwk.ScorePlugin):
    """Score of kube-scheduler v1.36, image_locality.go.

    The number of nodes with an image is the one at the time when the node was last copied to the view.
    """

    name = "ImageLocality"
    default_weight = 1

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"images": sorted({normalized_image_name(container.image) for container in containers})}
