"""Preemption: eviction of pods of lower priority for a pod that fits nowhere."""

from .default_preemption import DefaultPreemption as DefaultPreemption
from .default_preemption import preemption_plugins as preemption_plugins
from .evaluator import Evaluator as Evaluator
from .evaluator import set_up_preemption as set_up_preemption
from .eviction_units import EvictionUnits as EvictionUnits
from .pick import Candidate as Candidate
from .pick import pick_one_node as pick_one_node
