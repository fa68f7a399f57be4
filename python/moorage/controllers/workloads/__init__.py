"""The controllers of workloads, simulated: they create and delete the pods of what is in a store."""

from .cluster_controllers import ClusterControllers as ClusterControllers
from .pod_times import PodTimes as PodTimes
from .pod_times import TimesOf as TimesOf
from .rollout import Rollout as Rollout
