"""The scheduler: scheduling cycles over the cache and their results."""

from __future__ import annotations

from ..framework.profile import Profile as Profile
from .cycle.diagnosis import Diagnosis as Diagnosis
from .cycle.results import Decision as Decision
from .cycle.results import Eviction as Eviction
from .cycle.results import Failure as Failure
from .cycle.results import ScheduleResult as ScheduleResult
