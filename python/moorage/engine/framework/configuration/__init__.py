"""``KubeSchedulerConfiguration`` (``kubescheduler.config.k8s.io/v1``) as kube-scheduler v1.36 reads it.

`load_configuration` decodes strictly, sets defaults and validates. `build_profiles` lists the plugins of each
extension point with weights and arguments, for a registry of plugins; `effective` returns the effective
configuration as a JSON value. Errors have upstream's messages, and the stage in which upstream raises them.
"""

from moorage.errors import ConfigurationError as ConfigurationError
from moorage.kube.releases import DEFAULT_GATES as DEFAULT_GATES
from moorage.kube.releases import dependents_off as dependents_off
from moorage.kube.releases import feature_gates as feature_gates
from moorage.kube.releases import groups_pods as groups_pods
from moorage.kube.releases import pod_gates as pod_gates

from .load_configuration import load_configuration as load_configuration
from .profile_plugins import POINTS as POINTS
from .profile_plugins import Registry as Registry
from .profile_plugins import build_extenders as build_extenders
from .profile_plugins import build_profiles as build_profiles
from .profile_plugins import effective as effective
from .types import Extender as Extender
from .types import KubeSchedulerConfiguration as KubeSchedulerConfiguration
