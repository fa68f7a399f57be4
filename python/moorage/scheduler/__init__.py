"""The scheduler: scheduling cycles over the cache, their results, and explanations."""

from moorage.framework.profiles.profile import Profile as Profile

from .cycle.diagnosis import Diagnosis as Diagnosis
from .cycle.results import Decision as Decision
from .cycle.results import Eviction as Eviction
from .cycle.results import Examination as Examination
from .cycle.results import Failure as Failure
from .cycle.results import Feasibility as Feasibility
from .cycle.results import PreFilterOutcome as PreFilterOutcome
from .cycle.results import ScheduleResult as ScheduleResult
from .difference import Difference as Difference
from .explain.constraints import Constraint as Constraint
from .explain.explain_document import Explanation as Explanation
from .explain.explanation import Situation as Situation
from .explain.single_change import Change as Change
from .explain.situations import explain_after_run as explain_after_run
from .explain.situations import explain_alone as explain_alone
from .explain.situations import explain_in_turn as explain_in_turn
from .scheduler import Scheduler as Scheduler
from .scheduler_metrics import SchedulerMetrics as SchedulerMetrics
