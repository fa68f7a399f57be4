"""The strategic merge patch that schedulers write: nomination and conditions of a pod's status.

Its result is that of `strategic_merge`, without writing the status as JSON and reading it again.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from moorage.objects.model.meta import Condition, Object
from moorage.objects.model.pod import Pod

_CONDITION = {"type", "status", "reason", "message", "lastTransitionTime"}
_LIMIT = 1 << 16
"""Characters of a text; longer ones are for the general patch to check."""


def patched_pod(current: Object, patch: dict[str, Any]) -> Pod | None:
    """What a patch of the subresource ``status`` makes of a pod; None where it changes anything else than
    ``status.nominatedNodeName`` and whole conditions, or may be malformed."""
    meta, changes = patch.get("metadata"), patch.get("status")
    if not isinstance(current, Pod) or patch.keys() != {"metadata", "status"}:
        return None
    if not isinstance(meta, dict) or meta.keys() != {"uid"} or not isinstance(changes, dict):
        return None
    if not changes.keys() <= {"nominatedNodeName", "conditions"}:
        return None
    status = current.status
    node, listed = changes.get("nominatedNodeName", status.nominated_node_name), changes.get("conditions", [])
    if not (_is_text(node) and _is_text(meta["uid"]) and isinstance(listed, list)):
        return None
    conditions = list(status.conditions)
    for item in listed:
        new = _condition(item)
        if new is None:
            return None
        at = next((at for at, one in enumerate(conditions) if one.type == new.type), len(conditions))
        conditions[at : at + 1] = [new]
    status = replace(status, nominated_node_name=node, conditions=tuple(conditions))
    return replace(current, metadata=replace(current.metadata, uid=meta["uid"]), status=status)


def _condition(item: Any) -> Condition | None:
    if not isinstance(item, dict) or item.keys() != _CONDITION or not item["type"]:
        return None
    time = item["lastTransitionTime"]
    texts = item["type"], item["status"], item["reason"], item["message"]
    if not (all(map(_is_text, texts)) and (time is None or _is_text(time))):
        return None
    return Condition(*texts, last_transition_time=time)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and len(value) < _LIMIT
