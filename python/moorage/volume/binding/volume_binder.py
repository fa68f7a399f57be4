"""The volume binder (kube-scheduler v1.36, volumebinding/binder.go)."""

from __future__ import annotations

import time
from collections.abc import Callable

from moorage.framework.runtime.steps import Steps, take_all
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod

from .bind import (
    DEFAULT_BIND_TIMEOUT,
    POLL_INTERVAL,
    BindTimeoutError,
    RunningBinding,
    are_bound,
    assume_volumes,
    revert,
    write,
)
from .claims import VolumeError
from .find import (
    PodVolumeClaims,
    PodVolumes,
    check_bound_claims,
    conflict_reasons,
    find_unbound,
    get_pod_volume_claims,
)
from .metrics import VOLUME_SCHEDULING_STAGE_FAILED, counting_failures
from .sources import VolumeSources


class VolumeBinder:
    """Finds volumes for a pod's claims on a node, assumes them, and binds them.

    `get_pod_volume_claims` is called once for each attempt to schedule a pod, `find_pod_volumes` for each
    node, from any thread; `assume_pod_volumes` and `revert_assumed_pod_volumes` one at a time by who
    schedules; binding from any thread, one for each pod.

    Parameters
    ----------
    sources : VolumeSources
        What it reads and writes.
    bind_timeout : float
        How long binding a pod's volumes may take, in seconds on `clock`.
    clock : callable
        Seconds.
    sleep : callable
        Waits for so many seconds; only `bind_pod_volumes` does.
    """

    def __init__(
        self,
        sources: VolumeSources,
        *,
        bind_timeout: float = DEFAULT_BIND_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.sources = sources
        self._bind_timeout = bind_timeout
        self._clock = clock
        self._sleep = sleep

    def get_pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """Classify the claims of a pod, those of ephemeral volumes included.

        Raises
        ------
        VolumeError
            A claim is not there, or not the pod's, or its class does not say when its volumes are bound.
        """
        return get_pod_volume_claims(self.sources, pod)

    def find_pod_volumes(
        self, pod: Pod, claims: PodVolumeClaims, node: Node
    ) -> tuple[PodVolumes, tuple[str, ...]]:
        """Find volumes for a pod on a node.

        Returns
        -------
        volumes : PodVolumes
            What to bind and to provision; None for empty lists.
        reasons : tuple of str
            Why the node is not feasible; empty if it is.

        Raises
        ------
        VolumeError
            A claim cannot be provisioned for lack of a class, or its selector cannot be read.
        """
        try:
            bound = check_bound_claims(self.sources, claims.bound, node)
            unbound = find_unbound(self.sources, claims, node)
        except Exception:
            VOLUME_SCHEDULING_STAGE_FAILED.inc("predicate")
            raise
        return unbound.volumes, conflict_reasons(bound, unbound)

    def assume_pod_volumes(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Assume the bindings and selected nodes that were found.

        Returns
        -------
        bool
            Whether there is nothing to do, as every claim is fully bound; `pod_volumes` is left alone then.
            Otherwise it has afterwards what is assumed, with empty lists for None.

        Raises
        ------
        VolumeError
            Something has changed since; everything is as before.
        """
        with counting_failures("assume"):
            if are_bound(self.sources, pod):
                return True
            assume_volumes(self.sources, node_name, pod_volumes)
            return False

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Undo `assume_pod_volumes`; repeated calls have no effect."""
        revert(self.sources, pod_volumes.static_bindings or (), pod_volumes.dynamic_provisions or ())

    def begin(self, pod: Pod, pod_volumes: PodVolumes, node_name: str | None = None) -> RunningBinding:
        """Write the assumed bindings. The caller then calls `check` each `POLL_INTERVAL`.

        Parameters
        ----------
        pod : Pod
        pod_volumes : PodVolumes
            As `assume_pod_volumes` left it; has afterwards what was written.
        node_name : str, optional
            Where the pod is to run; the one in its spec by default.

        Raises
        ------
        VolumeError
            Nothing was decided.
        ApiError
            The client's. What had been written by then stays so; the rest is no longer assumed.
        """
        with counting_failures("bind"):
            write(self.sources, pod, pod_volumes)
        node_name = pod.spec.node_name if node_name is None else node_name
        return RunningBinding(self.sources, pod, node_name, pod_volumes, self._clock, self._bind_timeout)

    def check(self, running: RunningBinding) -> bool:
        """Whether all written bindings are complete.

        Raises
        ------
        VolumeError
            It will not be, or is not in time.
        """
        with counting_failures("bind"):
            try:
                return running.check()
            except BindTimeoutError as error:
                raise BindTimeoutError("binding volumes: context deadline exceeded") from error
            except VolumeError as error:
                raise VolumeError(f"binding volumes: {error}") from error

    def binding(self, pod: Pod, pod_volumes: PodVolumes, node_name: str | None = None) -> Steps[None]:
        """Run `begin`, then `check` each `POLL_INTERVAL` until all is bound, as a generator; parameters and
        errors as there."""
        running = self.begin(pod, pod_volumes, node_name)
        done = False
        while not done:
            yield POLL_INTERVAL
            done = self.check(running)

    def bind_pod_volumes(self, pod: Pod, pod_volumes: PodVolumes, node_name: str | None = None) -> None:
        """Run `binding` and `sleep` between its steps."""
        take_all(self.binding(pod, pod_volumes, node_name), self._sleep)
