"""What the pods of workloads follow from, ownership of pods, and generated names."""

from __future__ import annotations
