"""Runs upstream's scheduler_perf benchmark files against the engine in virtual time."""

from .measured_run import run_workload as run_workload
from .report import WorkloadReport as WorkloadReport
from .scheduler_perf_file import Workload as Workload
from .scheduler_perf_file import read_workloads as read_workloads
