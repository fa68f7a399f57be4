# The modules: for type checkers, and for the package, which imports each at its first use.

from . import custom_objects as custom_objects
from . import daemon_pods as daemon_pods
from . import deployment_rollout as deployment_rollout
from . import disruption as disruption
from . import expand_kinds as expand_kinds
from . import job_state as job_state
from . import kind_rules as kind_rules
from . import kind_table as kind_table
from . import missing_pods as missing_pods
from . import ownership as ownership
from . import readiness as readiness
from . import revisions as revisions
from . import seen_failures as seen_failures
from . import stateful_pods as stateful_pods
