"""Flags of cluster-autoscaler as files write them: its names in camel case, times as durations or seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from moorage.errors import InputError, located
from moorage.go_texts import SECOND, parse_duration

from .flags import Flags

OF_GROUPS = frozenset(
    (
        "scaleDownUtilizationThreshold",
        "scaleDownGpuUtilizationThreshold",
        "scaleDownUnneededTime",
        "scaleDownUnreadyTime",
        "ignoreDaemonSetsUtilization",
    )
)
"""The flags that a group can set for itself."""


def read_flags(values: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the fields of `Flags` that some flags set.

    Parameters
    ----------
    known : frozenset of str
        Flags that may be set.

    Raises
    ------
    InputError
        Names the flag.
    """
    kinds, out = get_type_hints(Flags), dict[str, Any]()
    for name, value in values.items():
        field = re.sub(r"(?=[A-Z])", "_", name).lower()
        with located(path=name):
            if name not in known:
                raise InputError(f"must be one of {', '.join(sorted(known))}")
            try:
                if kinds[field] is float and isinstance(value, str):
                    value = parse_duration(value) / SECOND
                out[field] = msgspec.convert(value, kinds[field])
            except (ValueError, msgspec.ValidationError) as error:
                raise InputError(str(error)) from None
            if isinstance(out[field], int | float) and out[field] < 0:
                raise InputError(f"must be at least 0, not {value}")
    return out
