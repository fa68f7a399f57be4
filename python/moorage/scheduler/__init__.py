"""The scheduler: cycles over the cache, decisions, and why a pod did not fit."""

from moorage.framework.profile import Profile as Profile

from .batch import ScheduleResult as ScheduleResult
from .changes import Change as Change
from .constraints import Constraint as Constraint
from .diagnosis import Diagnosis as Diagnosis
from .explanation import Explanation as Explanation
from .explanation import Situation as Situation
from .results import Decision as Decision
from .results import Eviction as Eviction
from .results import Examination as Examination
from .results import Failure as Failure
from .results import PreFilterOutcome as PreFilterOutcome
from .results import Result as Result
from .scheduler import Scheduler as Scheduler
from .situations import explain_after_run as explain_after_run
from .situations import explain_alone as explain_alone
from .situations import explain_in_turn as explain_in_turn
from .template_pods import TemplateRun as TemplateRun
