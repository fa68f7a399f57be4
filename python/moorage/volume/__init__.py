"""Volumes: what the scheduler decides and assumes of them, and the controller that binds them to claims."""

from __future__ import annotations
