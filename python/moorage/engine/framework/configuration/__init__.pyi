# The public names, and modules: for type checkers, and for the package, which imports each at its first use.

from moorage.errors import ConfigurationError as ConfigurationError
from moorage.kube.releases import DEFAULT_GATES as DEFAULT_GATES
from moorage.kube.releases import dependents_off as dependents_off
from moorage.kube.releases import feature_gates as feature_gates
from moorage.kube.releases import groups_pods as groups_pods
from moorage.kube.releases import pod_gates as pod_gates

from . import profile_plugins as profile_plugins
from . import validation as validation
from .loading import load_configuration as load_configuration
from .profile_plugins import POINTS as POINTS
from .profile_plugins import Registry as Registry
from .profile_plugins import build_extenders as build_extenders
from .profile_plugins import build_profiles as build_profiles
from .profile_plugins import effective as effective
from .types import Extender as Extender
from .types import KubeSchedulerConfiguration as KubeSchedulerConfiguration
