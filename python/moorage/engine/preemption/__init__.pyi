# The public names, and modules: for type checkers, and for the package, which imports each at its first use.

from . import eviction_units as eviction_units
from . import preempt_for_group as preempt_for_group
from .default_preemption import DefaultPreemption as DefaultPreemption
from .default_preemption import preemption_plugins as preemption_plugins
from .dry_run import Candidate as Candidate
from .dry_run import Choice as Choice
from .dry_run import pick_one_node as pick_one_node
from .evaluator import Evaluator as Evaluator
from .evaluator import FoundCandidates as FoundCandidates
from .eviction_units import EvictionUnits as EvictionUnits
