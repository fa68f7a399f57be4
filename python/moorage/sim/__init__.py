"""Simulations: synthetic clusters, benchmarks, and summaries of runs."""

from .summary import Summary as Summary
from .summary import summarize as summarize
