"""The controllers of workloads, simulated: they create and delete the pods of what is in a store."""

from .availability import PodTimes as PodTimes
from .availability import TimesOf as TimesOf
from .cluster_controllers import ClusterControllers as ClusterControllers
from .rollout import Rollout as Rollout
