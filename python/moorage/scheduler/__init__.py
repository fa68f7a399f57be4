"""The scheduler: cycles over the cache, decisions, and why a pod did not fit."""

from moorage.framework.profile import Profile as Profile

from .batch import ScheduleResult as ScheduleResult
from .changes import Change as Change
from .constraints import Constraint as Constraint
from .diagnosis import Diagnosis as Diagnosis
from .explanation import Explanation as Explanation
from .results import Decision as Decision
from .results import Eviction as Eviction
from .results import Examination as Examination
from .results import Failure as Failure
from .results import PreFilterOutcome as PreFilterOutcome
from .results import Result as Result
from .scheduler import Scheduler as Scheduler
from .template_pods import TemplateRun as TemplateRun
