"""What of a step's result is compared: all but what upstream leaves to chance, or tells of differently."""

from __future__ import annotations

import re
from typing import Any

from moorage.kube.releases import DEFAULT, release_named

Json = dict[str, Any]

LEFT_OUT = {
    *("shareID", "allocationTimestamp"),
    *("feasibleAt", "feasibleAtDigest", "totals", "totalsDigest", "orderHash", "hinted"),
}
"""Fields of modes sampled and gang that the Go program does not tell, and what differs from run to run."""


def normal(step: Json) -> Json:
    """The part of a step's result that is compared.

    Parameters
    ----------
    step : dict

    Returns
    -------
    dict
    """
    return _of_queue(step) if "queue" in step else dict(_without(step))


ANY_OF = re.compile(r"attribute \S+: unsupported attribute value")
"""Of several attributes that CEL cannot have, upstream names any."""


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return ANY_OF.sub("attribute: unsupported attribute value", value)
    if isinstance(value, dict):
        return {key: _without(inner) for key, inner in value.items() if key not in LEFT_OUT}
    return [_without(inner) for inner in value] if isinstance(value, list) else value


def _of_queue(step: Json) -> Json:
    """Upstream tells which pods are in a queue; their order shows in what is popped."""
    queue = step["queue"]
    waiting = {
        "active": ("active",),
        "backoff": ("backoff", "errorBackoff"),
        "unschedulable": ("unschedulable", "gated"),
    }
    found = {name: sorted(_pods(queue, *parts)) for name, parts in waiting.items()}
    told = {key: queue[key] for key in ("popped", "empty", "inFlight") if key in queue}
    return {"op": step["op"], "absent": step.get("absent", False)} | found | told


def _pods(queue: Json, *parts: str) -> list[str]:
    entries = [one for part in parts for one in queue.get(part, ())]
    return [one["pod"] if isinstance(one, dict) else one for one in entries]


def outcome(result: Json, release: str = DEFAULT) -> Json:
    """The part of a configuration's result that is compared, as a line of the vectors has it.

    Parameters
    ----------
    result : dict
    release : str, optional

    Returns
    -------
    dict
    """
    found = {key: value for key, value in result.items() if key not in ("name", "mode")}
    if "error" in found:  # upstream's scheme is named after the place of its source
        found["error"] = found["error"].replace(
            '"pkg/runtime/scheme.go:111"', f'"{release_named(release).scheme}"'
        )
    return found
