# The modules: for type checkers, and for the package, which imports each at its first use.

from . import block_yaml as block_yaml
from . import change_cluster as change_cluster
from . import cluster_builder as cluster_builder
from . import deciding_release as deciding_release
from . import documents as documents
from . import exported_objects as exported_objects
from . import files as files
from . import load as load
from . import object_defaults as object_defaults
from . import params_reader as params_reader
from . import parts_reader as parts_reader
from . import python_values as python_values
from . import read_objects as read_objects
from . import recognize_templates as recognize_templates
from . import settle_cluster as settle_cluster
from . import snapshots as snapshots
from . import usage_metrics as usage_metrics
from . import yaml_events as yaml_events
