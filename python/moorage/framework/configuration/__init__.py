"""``KubeSchedulerConfiguration`` (``kubescheduler.config.k8s.io/v1``) as kube-scheduler v1.36 reads it.

`load_configuration` decodes strictly, fills in the defaults and validates; `build_profiles` says, for a
registry of plugins, which plugins run where, in which order, with what weights and arguments; `effective`
gives all of it as one JSON value. Errors carry upstream's texts and the stage in which upstream finds them.
"""

from .effective import effective
from .errors import ConfigurationError
from .feature_gates import DEFAULT_GATES, feature_gates, groups_pods, pod_gates
from .load_configuration import load_configuration
from .profile_plugins import (
    POINTS,
    ProfilePlugins,
    RegisteredPlugin,
    Registry,
    build_extenders,
    build_profiles,
    enabled_plugins,
)
from .types import Extender, KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = [
    "DEFAULT_GATES",
    "POINTS",
    "ConfigurationError",
    "Extender",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "ProfilePlugins",
    "RegisteredPlugin",
    "Registry",
    "build_extenders",
    "build_profiles",
    "effective",
    "enabled_plugins",
    "feature_gates",
    "groups_pods",
    "load_configuration",
    "pod_gates",
]
