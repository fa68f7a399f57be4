"""Who changes a cluster besides the scheduler: controllers of workloads, claims and volumes; kubelets."""

from __future__ import annotations

from .availability import PodTimes as PodTimes
from .availability import Rollout as Rollout
from .availability import TimesOf as TimesOf
from .cluster_controllers import ClusterControllers as ClusterControllers
