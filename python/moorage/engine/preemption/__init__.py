"""Preemption: eviction of pods of lower priority for a pod that fits nowhere."""

from .default_preemption import DefaultPreemption as DefaultPreemption
from .default_preemption import Evaluator as Evaluator
from .default_preemption import preemption_plugins as preemption_plugins
from .default_preemption import set_up_preemption as set_up_preemption
from .dry_run import Candidate as Candidate
from .dry_run import pick_one_node as pick_one_node
from .eviction_units import EvictionUnits as EvictionUnits
