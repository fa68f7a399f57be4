"""DefaultBinder: known by name; simulations bind by entering the pod in the cache."""

from __future__ import annotations

from moorage.framework.interface import BIND, UnbuiltPlugin


class DefaultBinder(UnbuiltPlugin):
    """kube-scheduler v1.36, defaultbinder/."""

    name = "DefaultBinder"
    extension_points = (BIND,)
