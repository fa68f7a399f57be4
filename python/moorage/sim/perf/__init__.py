"""scheduler_perf: upstream's benchmark files, run against the engine in virtual time."""

from .config import Case as Case
from .config import Workload as Workload
from .config import read_cases as read_cases
from .report import WorkloadReport as WorkloadReport
from .runner import run_workload as run_workload
