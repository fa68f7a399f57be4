"""What tests need of the inside of compat."""

# The type of a handler, for an annotation.
# Scores and statuses of PreemptHandle.
from moorage.compat import preempt_handle as preempt_handle
from moorage.compat.adapted_binder import DecisionsHandler as DecisionsHandler

# Locks and threads.
from moorage.compat.v1alpha1 import PodInPermit as PodInPermit
from moorage.compat.v1alpha1 import RWMutex as RWMutex
from moorage.compat.v1alpha1 import WaitingPods as WaitingPods
