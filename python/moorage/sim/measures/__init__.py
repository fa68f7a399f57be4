"""Measures: numbers of a history, and columns over time; functions of the history and of options."""

from .capacity_measures import fragmentation as fragmentation
from .capacity_measures import largest_pod as largest_pod
from .capacity_measures import utilization as utilization
from .gpu_measures import gpu_allocation as gpu_allocation
from .gpu_measures import gpu_fragmentation as gpu_fragmentation
from .measurement import MEASURES as MEASURES
from .measurement import Measurement as Measurement
from .measurement import Request as Request
from .measurement import evaluate as evaluate
from .measurement import measure as measure
from .measurement import measures_of as measures_of
from .pod_measures import cost as cost
from .pod_measures import disruptions as disruptions
from .pod_measures import evictions as evictions
from .pod_measures import pending as pending
from .pod_measures import spread as spread
from .pod_measures import summary as summary
