"""Policies for pods that share GPUs: `GpuShare` follows the GPUs, and scores go by what it follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage._core.base.buffers import Journal
from moorage._core.base.resources import pod_requests
from moorage._core.devices.gpu_shares import BEST_FIT, MAX_GPUS, RANDOM, WHOLE, WORST_FIT, GpuShares
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import RowPlugin, Rows, Scores
from moorage.errors import InputError
from moorage.grouped import most_of
from moorage.kube import Pod


class UndoableRandom:
    """Uniform random integers. After a rollback of the cluster's state the same ones are drawn again."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._state: Any = self._generator.bit_generator.state
        self._kept = {"state": self._state}  # a rollback restores it

    def draw(self, below: int, journal: Journal) -> int:
        """Return a number from 0 to `below` - 1."""
        generator = self._generator
        if self._kept["state"] is not self._state:
            generator.bit_generator.state = self._kept["state"]
        out = int(generator.integers(below))
        self._state = generator.bit_generator.state
        journal.put(self._kept, "state", self._state)
        return out

    def copy_from(self, other: UndoableRandom) -> None:
        """Go on as another one."""
        self._state = self._generator.bit_generator.state = other._kept["state"]
        self._kept = {"state": self._state}


RESOURCE = "alibabacloud.com/gpu-milli"
MODEL_LABEL = "alibabacloud.com/gpu-card-model"
RULES = {"best": BEST_FIT, "worst": WORST_FIT, "random": RANDOM}
GRADIENT = "gradient"

# The node of a pod, the thousandths that it takes of each of its GPUs, and their indices.
Allocation = tuple[str, int, tuple[int, ...]]


class GpuShare(RowPlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin):
    """A pod requests thousandths of GPUs as the extended resource ``alibabacloud.com/gpu-milli``.

    Up to 1000 it shares one GPU with other pods; a multiple of 1000 are whole GPUs. A node has a GPU for
    each 1000 of its allocatable amount. The rules are those of the simulator of Weng et al. (Beware of
    Fragmentation, USENIX ATC 2023): a pod fits where enough GPUs have its share free. Pods that others
    have bound take GPUs by the same rule.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``gpuSelection``: which GPU of a node a pod shares: ``best`` (least free, the default), ``worst``,
        ``random`` or ``gradient`` (least fragmentation after it). ``typicalPods``: the pods by which
        fragmentation is measured, a list of ``{cpu, gpuMilli, models, share}``, where cpu is in millicores.
        ``seed``: of random choices.

    Attributes
    ----------
    shares : GpuShares
        The free part of each GPU, by row of the node table.
    allocations : dict of str to (str, int, tuple of int)
        Node, thousandths of each GPU and indices of the GPUs, by the UID of the pod.
    """

    name = "GpuShare"
    default_args = {"gpuSelection": "best", "typicalPods": (), "seed": 0}
    filter_reason = "node(s) didn't have enough free GPU share"

    def __init__(
        self, args: Mapping[str, Any] | None = None, handle: fwk.FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        if unknown := self.args.keys() - self.default_args.keys():
            raise InputError(f'plugin "GpuShare": unknown argument {min(unknown)}')
        self._rule = self.args["gpuSelection"]
        if self._rule not in {*RULES, GRADIENT}:
            known = ", ".join([*RULES, GRADIENT])
            raise InputError(f'plugin "GpuShare": gpuSelection must be one of {known}, not {self._rule!r}')
        self.shares = GpuShares([typical_pod(pod) for pod in self.args["typicalPods"]])
        self.allocations: dict[str, Allocation] = {}
        self._random = UndoableRandom(self.args["seed"])
        self._cursor = -1

    def clone(self) -> GpuShare:
        """Return a plugin of the same allocations and random numbers, for another scheduler."""
        other = GpuShare(self.args)
        other.allocations = self.allocations.copy()
        other._random.copy_from(self._random)
        return other

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        """Reject a request for parts of several GPUs, and skip the filter for pods without GPUs."""
        request = request_of(state.shape)
        if self.may_reject(state.shape):
            text = f"{RESOURCE}: {request} must be a share of one GPU or a number of whole GPUs"
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
        return None if request else fwk.SKIP

    def may_reject(self, shape: Shape) -> bool:
        request = request_of(shape)
        return request > WHOLE and request % WHOLE > 0

    def begin(self) -> None:
        """Bring the shares up to date, and ask about the pods of the search."""
        self.follow()
        self.shares.ask(self.shape.requests[0], *per_gpu(request_of(self.shape)))

    def filter_rows(self, rows: Rows) -> npt.NDArray[np.bool_]:
        return self.shares.fits(rows)

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        """Filter a node by the pods that it is given with, as in dry runs of preemption."""
        node = node_info.node
        shares, gpus = GpuShares(), node_info.allocatable.scalar_resources.get(RESOURCE, 0) // WHOLE
        shares.set_node(0, gpus, "" if node is None else node.metadata.labels.get(MODEL_LABEL, ""), 0)
        for placed in node_info.pods:
            held = self.allocations.get(placed.metadata.uid)
            if held is not None and node is not None and held[0] == node.metadata.name:
                shares.take(0, *held[1:])
            elif taken := request_of(self._shape_of(placed)):
                milli, count = per_gpu(taken)
                shares.ask(0, milli, count)
                shares.take(0, milli, shares.choose(0, BEST_FIT))
        shares.ask(state.shape.requests[0], *per_gpu(request_of(state.shape)))
        fits = shares.fits(np.zeros(1, dtype=np.int32))[0]
        return None if fits else fwk.Status(fwk.Code.UNSCHEDULABLE, (self.filter_reason,))

    def reserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        """Choose the GPUs of the pod, which is in the ledger."""
        self.follow()
        return None

    def follow(self) -> None:
        """Make the rows anew that have changed since the last call, from the pods on them."""
        state = self.required_handle().cache.state
        rows: Iterable[int] | None = state.log.rows_since(self._cursor) if self._cursor >= 0 else None
        if rows is None:
            rows = range(state.table.used)
        for row in rows:
            self._set_row(row)
        self._cursor = state.log.head

    def _set_row(self, row: int) -> None:
        """Make the GPUs of a row from the node and the pods on it; choose those of pods without any."""
        state, shares = self.required_handle().cache.state, self.shares
        node = state.table.objects[row]
        amounts = state.table.row_amounts(row)
        gpus = state.table.row_others(row).get(RESOURCE, (0, 0))[0] // WHOLE
        if gpus > MAX_GPUS:
            raise InputError(f"node {state.table.row_name(row)}: {gpus} GPUs, where {MAX_GPUS} are possible")
        model = "" if node is None else node.metadata.labels.get(MODEL_LABEL, "")
        shares.set_node(row, gpus if node is not None else 0, model, amounts[0] - amounts[2])
        if not gpus or node is None:
            return
        new = list[tuple[Pod, int, int]]()
        for pod in state.pods_of(row):
            held = self.allocations.get(pod.metadata.uid)
            if held is not None and held[0] == node.metadata.name:
                shares.take(row, *held[1:])
            elif request := request_of(self._shape_of(pod)):
                cpu = self._shape_of(pod).requests[0]
                shares.take(row, 0, (), -cpu)  # until its GPUs are chosen
                new.append((pod, cpu, request))
        for pod, cpu, request in new:
            milli, count = per_gpu(request)
            shares.ask(cpu, milli, count)
            chosen = self._choose(row)
            shares.take(row, milli, chosen, cpu)
            state.journal.put(self.allocations, pod.metadata.uid, (node.metadata.name, milli, chosen))

    def _choose(self, row: int) -> tuple[int, ...]:
        """The GPUs of a row for the pod that the shares are asked about."""
        if self._rule == GRADIENT:
            return self.shares.gradient_gpu(row)
        draw = self._random.draw(1 << 62, self.journal) if self._rule == "random" else 0
        return self.shares.choose(row, RULES[self._rule], draw)

    def _shape_of(self, pod: Pod) -> Shape:
        """The requests of a pod."""
        classes = self.required_handle().cache.state.classes
        return classes.shape_of(classes.intern(pod))


def per_gpu(request: int) -> tuple[int, int]:
    """Return the thousandths of each GPU and the number of GPUs of a request."""
    return (request, 1) if 0 < request <= WHOLE else (min(request, WHOLE), request // WHOLE)


def request_of(shape: Shape) -> int:
    """Return the thousandths of GPUs that pods of a shape request."""
    return shape.other_requests.get(RESOURCE, 0)


def typical_pod(pod: Mapping[str, Any]) -> tuple[int, int, int, tuple[str, ...], float]:
    """Return a typical pod of the arguments as `GpuShares` takes it."""
    return pod["cpu"], *per_gpu(pod["gpuMilli"]), tuple(pod.get("models", ())), pod["share"]


class GpuScore(RowPlugin, fwk.ScorePlugin):
    """A score by the free parts of GPUs; the profile must have `GpuShare`."""

    default_weight = 1

    @property
    def shares(self) -> GpuShares:
        """The free parts of GPUs, which have been asked about the pod of the search.

        Raises
        ------
        InputError
            The profile has no GpuShare.
        """
        for plugin in self._framework().profile.at(fwk.FilterPlugin):
            if isinstance(plugin, GpuShare):
                return plugin.shares
        raise InputError("the profile has no plugin GpuShare")


class GpuPacking(GpuScore):
    """Scores 50 to 100 for GPUs in use, 33 to 50 for free GPUs of nodes in use, less for idle nodes.

    The baseline GpuPacking of Weng et al. (USENIX ATC 2023); the profile must have `GpuShare`.
    """

    name = "GpuPacking"

    def score_rows(self, rows: Rows) -> Scores:
        return self.shares.packing(rows)


class GpuClustering(GpuScore):
    """Prefers nodes with pods of the same kind: shares of a GPU, or the same number of whole GPUs.

    The baseline GpuClustering of Weng et al. (USENIX ATC 2023); the profile must have `GpuShare`.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``gpus``: number of GPUs of the largest node.
    """

    name = "GpuClustering"
    default_args = {"gpus": 8}

    def score_rows(self, rows: Rows) -> Scores:
        return self.shares.clustering(rows, 1000 * self.args["gpus"])


class FGD(GpuScore):
    """Fragmentation gradient descent: prefers the node whose GPUs the pod fragments least.

    A policy of Weng et al. (USENIX ATC 2023).

    The typical pods by which fragmentation is measured are those of `GpuShare`, which the profile must have;
    its ``gpuSelection`` is ``gradient`` in that publication.
    """

    name = "FGD"

    def score_rows(self, rows: Rows) -> Scores:
        return self.shares.gradient(rows)


# ---- typical pods ------------------------------------------------------------------------------------------

POPULARITY = 0.95
TypicalShape = tuple[int, int, int, tuple[str, ...]]


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
    counts: Counter[TypicalShape] = Counter()
    for pod, number in pods:
        counts[_shape(pod)] += number
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    return [
        {"cpu": cpu, "gpuMilli": milli * gpus, "models": list(models), "share": share}
        for (cpu, milli, gpus, models), share in most_of(ordered, popularity)
    ]


def _shape(pod: Pod) -> TypicalShape:
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
            for requirement in term.match_expressions
            if requirement.key == MODEL_LABEL and requirement.operator == "In"
            for model in requirement.values
        )
    )
