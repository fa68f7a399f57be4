# The modules: for type checkers, and for the package, which imports each at its first use.

from . import apply_configuration as apply_configuration
from . import bound_policies as bound_policies
from . import conversions as conversions
from . import mutating_policies as mutating_policies
from . import outside_policies as outside_policies
from . import policy_expressions as policy_expressions
from . import policy_matching as policy_matching
from . import policy_plugins as policy_plugins
from . import policy_rules as policy_rules
from . import reviewers as reviewers
from . import silent_webhooks as silent_webhooks
from . import unread_objects as unread_objects
from . import validating_policies as validating_policies
