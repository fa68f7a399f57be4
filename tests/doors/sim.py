"""What tests need of the inside of sim."""

# Passes are counted.
from moorage.sim.autoscaling.karpenter_disruption import Disrupter as Disrupter

# A limit is lowered; all formats are gone through.
from moorage.sim.loaders import trace_rows as trace_rows
from moorage.sim.loaders.formats import FORMATS as FORMATS
from moorage.sim.loaders.formats import reader as reader

# Documented names one level below the room's own, and the classes of GPUs' measures.
from moorage.sim.measures import MEASURES as MEASURES
from moorage.sim.measures import evaluate as evaluate
from moorage.sim.measures import gpu_allocation as gpu_allocation
from moorage.sim.measures import measure as measure
from moorage.sim.measures import summary as summary
from moorage.sim.measures.gpu_measures import CLASSES as CLASSES

# Documented: the policies that a profile can name.
from moorage.sim.policies import policies as policies
from moorage.sim.policies.gpu_share import RESOURCE as RESOURCE

# The keys of shares, and arrays of typical pods.
from moorage.sim.policies.gpu_share import GpuShare as GpuShare
from moorage.sim.policies.typical_pods import typical_pods as typical_pods

# The short way is left out, to compare it with the long one; a limit is lowered.
from moorage.sim.replay import replayer as replayer

# The texts of errors.
from moorage.sim.replay.conditions import parse_condition as parse_condition

# Amounts of nodes and pods, for slow twins of measures.
from moorage.sim.replay.history import allocatable_of as allocatable_of
from moorage.sim.replay.history import requests_of as requests_of

# Pages and figures in Python, documented; of made documents, which no command can be given.
from moorage.sim.report import history_page as history_page
from moorage.sim.report import sweep_figure as sweep_figure
from moorage.sim.report import sweep_page as sweep_page
from moorage.sim.report import verification_page as verification_page

# The text of a duration, and means over time, compared with slow sums.
from moorage.sim.report.history_charts import duration as duration
from moorage.sim.report.history_charts import history_use as history_use

# The values of a summary.
from moorage.sim.summary import Use as Use

# Documented names one level below the room's own.
from moorage.sim.sweep import Sweep as Sweep
from moorage.sim.sweep import SweepResult as SweepResult
from moorage.sim.sweep import read_sweep as read_sweep
from moorage.sim.sweep import sweep as sweep

# Intervals and executors, one by one.
from moorage.sim.sweep.confidence import spread as spread
from moorage.sim.sweep.executors import EXECUTORS as EXECUTORS
from moorage.sim.sweep.executors import make_executor as make_executor

# What readers compare, of made results.
from moorage.sim.sweep.side_by_side import drawn_measures as drawn_measures
from moorage.sim.sweep.side_by_side import series_of as series_of
from moorage.sim.sweep.side_by_side import side_by_side as side_by_side
from moorage.sim.sweep.side_by_side import with_error as with_error

# Cells of a sweep, which have to be as its file says.
from moorage.sim.sweep.sweep_file import Cell as Cell
from moorage.sim.sweep.sweep_file import ReplayOptions as ReplayOptions
from moorage.sim.sweep.sweep_file import TimelineSource as TimelineSource
from moorage.sim.sweep.sweep_file import cells_of as cells_of
from moorage.sim.sweep.sweep_file import decode_sweep as decode_sweep
from moorage.sim.timeline import Event as Event
from moorage.sim.timeline import Verb as Verb

# Settings of autoscalers as values: defaults, checks, texts of errors.
from moorage.sim.timeline.autoscaler_spec import AutoscalerSpec as AutoscalerSpec
from moorage.sim.timeline.autoscaler_spec import KarpenterTimes as KarpenterTimes
from moorage.sim.timeline.autoscaler_spec import checked as checked
from moorage.sim.timeline.autoscaler_spec import spec_value as spec_value
