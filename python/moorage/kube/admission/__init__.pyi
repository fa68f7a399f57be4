# The modules: for type checkers, and for the package, which imports each at its first use.

from . import built_in_plugins as built_in_plugins
from . import chain as chain
from . import field_checks as field_checks
from . import kueue_refusals as kueue_refusals
from . import manifest_validation as manifest_validation
from . import pod_requests as pod_requests
from . import pod_security as pod_security
from . import policies as policies
from . import policy as policy
from . import request as request
from . import resource_quotas as resource_quotas
from . import secured_namespaces as secured_namespaces
from . import siblings as siblings
from . import validate_object as validate_object
