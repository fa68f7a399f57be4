"""The typical pods by which the fragmentation of GPUs is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from moorage._core.base.resources import pod_requests
from moorage.kube import Pod

from .gpu_share import MODEL_LABEL, RESOURCE, per_gpu

POPULARITY = 0.95
Shape = tuple[int, int, int, tuple[str, ...]]


def typical_pods(pods: Iterable[tuple[Pod, int]], popularity: float = POPULARITY) -> list[dict[str, Any]]:
    """Return the most frequent shapes of pods, as the argument ``typicalPods`` of GpuShare.

    Shapes are taken by falling count until a part of the pods is covered (Weng et al., USENIX ATC 2023,
    section 4.1; ties by cpu, share, number of GPUs and models, as in the authors' simulator, which
    compares lists of models as texts).

    Parameters
    ----------
    pods : iterable of (Pod, int)
        Pods or templates with their numbers.
    popularity : float, optional
        The part of the pods to cover.

    Returns
    -------
    list of dict
        cpu in millicores, gpuMilli in thousandths, models, and the share of the covered pods.
    """
    counts: Counter[Shape] = Counter()
    for pod, number in pods:
        counts[_shape(pod)] += number
    total, covered = sum(counts.values()), 0
    typical: list[tuple[Shape, int]] = []
    for shape, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= popularity * total:
            break
        covered += count
        typical.append((shape, count))
    return [
        {"cpu": cpu, "gpuMilli": milli * gpus, "models": list(models), "share": count / covered}
        for (cpu, milli, gpus, models), count in typical
    ]


def _shape(pod: Pod) -> Shape:
    """The shape of a pod: millicores, thousandths of each GPU, number of GPUs, models."""
    requests = pod_requests(pod)
    milli, gpus = per_gpu(requests[RESOURCE].value() if RESOURCE in requests else 0)
    return requests["cpu"].milli_value() if "cpu" in requests else 0, milli, gpus, _models(pod)


def _models(pod: Pod) -> tuple[str, ...]:
    """The GPU models that the required node affinity of a pod allows, with repetitions; () for any.

    Lists that name a model twice are shapes of their own, as in the authors' simulator, which compares texts.
    """
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required
    return tuple(
        sorted(
            model
            for term in (required.node_selector_terms if required else ())
            for one in term.match_expressions
            if one.key == MODEL_LABEL and one.operator == "In"
            for model in one.values
        )
    )
