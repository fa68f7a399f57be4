"""Kubernetes quantities such as ``500m`` and ``1.5Gi``."""

from __future__ import annotations

from moorage._core.base.quantity import Quantity, parse_milli, parse_value

__all__ = ["Quantity", "parse_milli", "parse_value"]
