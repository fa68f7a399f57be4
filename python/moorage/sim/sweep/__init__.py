"""Sweeps: replays of configurations, timelines, changes and seeds, and the table of their measures."""

from .run_sweep import sweep as sweep
from .sweep_file import Sweep as Sweep
from .sweep_file import read_sweep as read_sweep
from .sweep_result import SweepResult as SweepResult
