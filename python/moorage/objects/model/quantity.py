"""Kubernetes quantities such as ``500m`` and ``1.5Gi``."""

from moorage._core.base.quantity import Quantity as Quantity
from moorage._core.base.quantity import parse_milli as parse_milli
from moorage._core.base.quantity import parse_value as parse_value
