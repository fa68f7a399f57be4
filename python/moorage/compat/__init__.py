"""Interfaces of earlier releases: v1alpha1 of the framework, and the volume binder of v1.14."""

from __future__ import annotations

from .fake_binder import FakeVolumeBinder, FakeVolumeBinderConfig, new_fake_volume_binder
from .pod_binding_cache import (
    NodeDecision,
    NodeDecisions,
    PodBindingCache,
    new_pod_binding_cache,
)
from .scheduler_binder import CachingVolumeBinder, SchedulerVolumeBinder, new_volume_binder

__all__ = [
    "CachingVolumeBinder",
    "FakeVolumeBinder",
    "FakeVolumeBinderConfig",
    "NodeDecision",
    "NodeDecisions",
    "PodBindingCache",
    "SchedulerVolumeBinder",
    "new_fake_volume_binder",
    "new_pod_binding_cache",
    "new_volume_binder",
]
