# The public names, and modules: for type checkers, and for the package, which imports each at its first use.

from ..framework.profile import Profile as Profile
from . import group_batch as group_batch
from . import place_group as place_group
from . import schedule_pods as schedule_pods
from . import volume_classes as volume_classes
from .cycle.diagnosis import Diagnosis as Diagnosis
from .cycle.diagnosis import Rejectors as Rejectors
from .cycle.results import Decision as Decision
from .cycle.results import Eviction as Eviction
from .cycle.results import Failure as Failure
from .cycle.results import ScheduleResult as ScheduleResult
