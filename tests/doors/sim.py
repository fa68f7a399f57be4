"""What tests need of the inside of sim."""

# Passes are counted.
# Settings of autoscalers as values: defaults, checks, texts of errors.
from moorage.sim.event_columns import AutoscalerSpec as AutoscalerSpec
from moorage.sim.event_columns import KarpenterTimes as KarpenterTimes
from moorage.sim.event_columns import checked as checked
from moorage.sim.event_columns import spec_value as spec_value

# The keys of shares, and arrays of typical pods.
from moorage.sim.gpu_policies import GpuShare as GpuShare
from moorage.sim.gpu_policies import typical_pods as typical_pods
from moorage.sim.karpenter_scaler import Disrupter as Disrupter

# A limit is lowered; all formats are gone through.
from moorage.sim.loaders.formats import FORMATS as FORMATS
from moorage.sim.loaders.formats import reader as reader

# Documented: the plugins of a file.
from moorage.sim.plugin_file import read_plugin_file as read_plugin_file

# The short way is left out, to compare it with the long one; a limit is lowered.
from moorage.sim.replay import replayer as replayer

# Amounts of nodes and pods, for slow twins of measures.
from moorage.sim.replay.history import allocatable_of as allocatable_of
from moorage.sim.replay.history import requests_of as requests_of

# The text of a duration, and means over time, compared with slow sums.
from moorage.sim.replay_report import duration as duration

# Pages and figures in Python, documented; of made documents, which no command can be given.
from moorage.sim.replay_report import history_page as history_page
from moorage.sim.replay_report import history_use as history_use
from moorage.sim.replay_report import verification_page as verification_page

# Documented names one level below the room's own.
from moorage.sim.sweep import make_executor as make_executor

# Cells of a sweep, which have to be as its file says.
from moorage.sim.sweep_file import cells_of as cells_of
from moorage.sim.sweep_file import decode_sweep as decode_sweep
from moorage.sim.sweep_report import sweep_figure as sweep_figure
from moorage.sim.sweep_report import sweep_page as sweep_page

# Intervals and executors, one by one.
from moorage.sim.sweep_result import spread as spread
