"""What Karpenter says of pods, without what each answer of a pool repeats."""

from __future__ import annotations

import re

_REQUIREMENTS = re.compile(r", requirements=(.*?)(?=, resources=)")
"""What Karpenter says of a pool itself where none of its types will do."""
_OF_EACH_POOL = re.compile(r"\S+/\w*nodeclass |karpenter\.sh/(initialized|nodepool|registered) ")
_ANOTHER_POOL = "incompatible requirements, key karpenter.sh/nodepool, "
_IS_TOO_LARGE = "no instance type has enough resources"


def short_refusal(text: str) -> str:
    """Return what an autoscaler says without the requirements of pools that do not decide: all of them where
    no type is large enough, else those that each pool has. Pools that say the same say it once, and where
    the pod names its pool, the others say nothing."""
    parts = [_REQUIREMENTS.sub(_deciding, part) for part in text.split("; ")]
    named = [part for part in parts if not part.startswith(_ANOTHER_POOL)]
    return "; ".join(dict.fromkeys(named or parts))


def _deciding(match: re.Match[str]) -> str:
    if _IS_TOO_LARGE in match.string:
        return ""
    terms = re.split(r", (?=\S+ (?:In|NotIn|Exists|DoesNotExist|[<>]))", match[1])
    kept = [term for term in terms if not _OF_EACH_POOL.match(term)]
    return f", requirements={', '.join(kept)}" if kept else ""
