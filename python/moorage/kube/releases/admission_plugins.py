"""Admission plugins of kube-apiserver that are off by default, and that run here if they are named."""

from __future__ import annotations

EXTENDED_RESOURCE_TOLERATION = "ExtendedResourceToleration"
OPTIONAL_PLUGINS = (EXTENDED_RESOURCE_TOLERATION,)
