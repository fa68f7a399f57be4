"""VolumeBinding: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.framework import signing
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import (
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from moorage.objects.pod import Pod


class VolumeBinding(
    UnbuiltPlugin,
    PreFilterPlugin,
    FilterPlugin,
    ReservePlugin,
    PreBindPlugin,
    PreScorePlugin,
    ScorePlugin,
    SignPlugin,
):
    """kube-scheduler v1.36, volumebinding/."""

    name = "VolumeBinding"
    default_args = {"bindTimeoutSeconds": 600}

    def unbuilt_use(self, pod: Pod) -> str:
        claims = any(v.persistent_volume_claim or v.ephemeral for v in pod.spec.volumes)
        return "persistent volume claims" if claims else ""

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)
