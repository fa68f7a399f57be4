"""What a Kubernetes release is: `Release`, a record of data and named behaviours, and its feature gates.

A leaf: it imports no other room.
"""

from .feature_gates import ALWAYS as ALWAYS
from .feature_gates import DEFAULT_GATES as DEFAULT_GATES
from .feature_gates import Condition as Condition
from .feature_gates import FeatureGates as FeatureGates
from .feature_gates import changed_gates as changed_gates
from .feature_gates import default_gates as default_gates
from .feature_gates import dependents_off as dependents_off
from .feature_gates import feature_gates as feature_gates
from .feature_gates import gates_of as gates_of
from .feature_gates import groups_pods as groups_pods
from .feature_gates import pod_gates as pod_gates
from .feature_gates import selected_gates as selected_gates
from .feature_gates import split_condition as split_condition
from .release import ADMISSION_PLUGINS as ADMISSION_PLUGINS
from .release import ALWAYS_PULL_IMAGES as ALWAYS_PULL_IMAGES
from .release import ANTI_AFFINITY_TOPOLOGY as ANTI_AFFINITY_TOPOLOGY
from .release import DEFAULT as DEFAULT
from .release import DEFAULT_TOLERATIONS as DEFAULT_TOLERATIONS
from .release import EXTENDED_RESOURCE_TOLERATION as EXTENDED_RESOURCE_TOLERATION
from .release import NOT_EVALUATED as NOT_EVALUATED
from .release import OPTIONAL_PLUGINS as OPTIONAL_PLUGINS
from .release import RELEASES as RELEASES
from .release import RESOURCE_QUOTA as RESOURCE_QUOTA
from .release import WEBHOOK_PLUGINS as WEBHOOK_PLUGINS
from .release import Release as Release
from .release import Version as Version
from .release import nearest_release as nearest_release
from .release import parse_version as parse_version
from .release import release_named as release_named
