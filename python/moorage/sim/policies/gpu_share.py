"""GpuShare: pods that ask for parts of a GPU, or for several whole ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage import framework as fwk
from moorage._core.services.gpu_shares import BEST_FIT, MAX_GPUS, RANDOM, WHOLE, WORST_FIT, GpuShares
from moorage.errors import InputError
from moorage.objects import Pod

RESOURCE = "alibabacloud.com/gpu-milli"
MODEL_LABEL = "alibabacloud.com/gpu-card-model"
RULES = {"best": BEST_FIT, "worst": WORST_FIT, "random": RANDOM}
GRADIENT = "gradient"

# The node of a pod, the thousandths that it takes of each of its GPUs, and their indices.
Allocation = tuple[str, int, tuple[int, ...]]


class GpuShare(fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin):
    """A pod requests thousandths of GPUs as the extended resource ``alibabacloud.com/gpu-milli``.

    Up to 1000 it shares one GPU with other pods; a multiple of 1000 are whole GPUs. A node has a GPU for
    each 1000 of its allocatable amount. The rules are those of the simulator of Weng et al. (Beware of
    Fragmentation, USENIX ATC 2023): a pod fits where enough GPUs have its share free.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``gpuSelection``: which GPU of a node a pod shares: ``best`` (least free, the default), ``worst``,
        ``random`` or ``gradient`` (least fragmentation after it). ``typicalPods``: the pods by which
        fragmentation is measured, a list of ``{cpu, gpuMilli, models, share}``, where cpu is in millicores.
        ``seed``: of random choices.
    handle : FrameworkHandle, optional

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
            raise InputError(f'plugin "GpuShare": gpuSelection {self._rule!r}: one of {[*RULES, GRADIENT]}')
        self.shares = GpuShares([typical_pod(pod) for pod in self.args["typicalPods"]])
        self.allocations: dict[str, Allocation] = {}
        self._random = np.random.default_rng(self.args["seed"])
        self._cursor = -1

    @classmethod
    def shares_of(cls, state: fwk.CycleState) -> GpuShares:
        """Return the shares in a scheduling cycle, about whose pod they have been asked.

        Raises
        ------
        InputError
            The profile has no GpuShare.
        """
        try:
            shares: GpuShares = state.read(cls.name)
        except fwk.NotFoundError:
            raise InputError("the profile has no plugin GpuShare") from None
        return shares

    def save(self) -> object:
        """Return what `undo` needs: the allocations and the state of the random numbers."""
        return self.allocations.copy(), self._random.bit_generator.state

    def undo(self, saved: Any) -> None:
        """Restore the allocations and the random numbers.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        self.allocations, self._random.bit_generator.state = saved[0].copy(), saved[1]
        self._cursor = -1

    def clone(self) -> GpuShare:
        """Return a plugin of the same allocations and random numbers, for another scheduler."""
        other = GpuShare(self.args)
        other.undo(self.save())
        return other

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        """Bring the shares up to date, and skip the filter for pods without GPUs."""
        self._update()
        request = request_of(state)
        if request > WHOLE and request % WHOLE:
            text = f"{RESOURCE}: {request} is neither a share of one GPU nor a number of whole GPUs"
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
        self.shares.ask(state.shape.requests[0], *per_gpu(request))
        state.write(self.name, self.shares)
        return None if request else fwk.SKIP

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        return self.shares.fits(nodes.rows)

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        """Filter a node by the pods that it is given with, as in dry runs of preemption."""
        node = node_info.node
        shares, gpus = GpuShares(), node_info.allocatable.scalar_resources.get(RESOURCE, 0) // WHOLE
        shares.set_node(0, gpus, "" if node is None else node.metadata.labels.get(MODEL_LABEL, ""), 0)
        for one in node_info.pods:
            held = self.allocations.get(one.metadata.uid)
            if held is not None and node is not None and held[0] == node.metadata.name:
                shares.take(0, *held[1:])
            elif taken := self._request(one):
                milli, count = per_gpu(taken)
                shares.ask(0, milli, count)
                shares.take(0, milli, shares.choose(0, BEST_FIT))
        shares.ask(state.shape.requests[0], *per_gpu(request_of(state)))
        fits = shares.fits(np.zeros(1, dtype=np.int32))[0]
        return None if fits else fwk.Status(fwk.Code.UNSCHEDULABLE, (self.filter_reason,))

    def reserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        """Choose the GPUs of the pod."""
        request = request_of(state)
        row = self.required_handle().cache.state.find_row(node_name)
        if request and row is not None:
            milli, count = per_gpu(request)
            self.shares.ask(state.shape.requests[0], milli, count)
            gpus = self._choose(row)
            if not gpus:
                return fwk.Status(fwk.Code.UNSCHEDULABLE, (self.filter_reason,))
            self.allocations[pod.metadata.uid] = node_name, milli, gpus
        return None

    def _choose(self, row: int) -> tuple[int, ...]:
        """The GPUs of a row for the pod of the cycle."""
        if self._rule == GRADIENT:
            return self.shares.gradient_gpu(row)
        draw = int(self._random.integers(1 << 62)) if self._rule == "random" else 0
        return self.shares.choose(row, RULES[self._rule], draw)

    def unreserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> None:
        self.allocations.pop(pod.metadata.uid, None)

    def _update(self) -> None:
        """Make the rows anew that have changed since the last cycle, from the pods on them."""
        state = self.required_handle().cache.state
        rows: Iterable[int] | None = state.log.rows_since(self._cursor) if self._cursor >= 0 else None
        if rows is None:
            rows = range(state.table.used)
        for row in rows:
            self._set_row(row)
        self._cursor = state.log.head

    def _set_row(self, row: int) -> None:
        """Make the GPUs of a row from the node and the pods on it."""
        state = self.required_handle().cache.state
        node = state.table.objects[row]
        amounts = state.table.row_amounts(row)
        gpus = state.table.row_others(row).get(RESOURCE, (0, 0))[0] // WHOLE
        if gpus > MAX_GPUS:
            raise InputError(f"node {state.table.row_name(row)}: {gpus} GPUs, where {MAX_GPUS} are possible")
        model = "" if node is None else node.metadata.labels.get(MODEL_LABEL, "")
        self.shares.set_node(row, gpus if node is not None else 0, model, amounts[0] - amounts[2])
        if not gpus or node is None:
            return
        for pod in state.pods_of(row):
            if allocation := self._allocation(pod, row, node.metadata.name):
                _, milli, taken = allocation
                self.shares.take(row, milli, taken)

    def _allocation(self, pod: Pod, row: int, node_name: str) -> Allocation | None:
        """The GPUs of a pod on a node; the best fit for a pod that this plugin has not placed there."""
        held = self.allocations.get(pod.metadata.uid)
        if held is not None and held[0] == node_name:
            return held
        request = self._request(pod)
        if not request:
            return None
        milli, count = per_gpu(request)
        self.shares.ask(0, milli, count)
        held = node_name, milli, self.shares.choose(row, BEST_FIT)
        self.allocations[pod.metadata.uid] = held
        return held if held[2] else None

    def _request(self, pod: Pod) -> int:
        """The thousandths of GPUs that a pod requests."""
        classes = self.required_handle().cache.state.classes
        return classes.shape_of(classes.intern(pod)).other_requests.get(RESOURCE, 0)


def per_gpu(request: int) -> tuple[int, int]:
    """Return the thousandths of each GPU and the number of GPUs of a request."""
    return (request, 1) if 0 < request <= WHOLE else (min(request, WHOLE), request // WHOLE)


def request_of(state: fwk.CycleState) -> int:
    """Return the thousandths of GPUs that the pod of a cycle requests."""
    return state.shape.other_requests.get(RESOURCE, 0)


def typical_pod(pod: Mapping[str, Any]) -> tuple[int, int, int, tuple[str, ...], float]:
    """Return a typical pod of the arguments as `GpuShares` takes it."""
    return pod["cpu"], *per_gpu(pod["gpuMilli"]), tuple(pod.get("models", ())), pod["share"]
