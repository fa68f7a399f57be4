"""A volume binder with configured results (Kubernetes v1.14, scheduler_binder_fake.go)."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.kube import Node, Pod


@dataclass
class FakeVolumeBinderConfig:
    """The results of a `FakeVolumeBinder`, which may be changed between calls.

    Attributes
    ----------
    all_bound : bool
        The result of `assume_pod_volumes`.
    find_unbound_satisfied, find_bound_satisfied : bool
        The result of `find_pod_volumes`.
    find_err, assume_err, bind_err : Exception or None
        Raised instead of a result.
    """

    all_bound: bool = False
    find_unbound_satisfied: bool = False
    find_bound_satisfied: bool = False
    find_err: Exception | None = None
    assume_err: Exception | None = None
    bind_err: Exception | None = None


class FakeVolumeBinder:
    """A `SchedulerVolumeBinder` for tests.

    Attributes
    ----------
    assume_called, bind_called : bool
        Whether `assume_pod_volumes` and `bind_pod_volumes` have been called, successfully or not.
    """

    def __init__(self, config: FakeVolumeBinderConfig) -> None:
        self._config = config
        self.assume_called = False
        self.bind_called = False

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """Return the configured results for unbound and for bound claims, or raise `find_err`.

        Parameters
        ----------
        node : Node
            Both are ignored.
        """
        _raise(self._config.find_err)
        return self._config.find_unbound_satisfied, self._config.find_bound_satisfied

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Return the configured `all_bound`, or raise `assume_err`.

        Parameters
        ----------
        node_name : str
            Both are ignored.
        """
        self.assume_called = True
        _raise(self._config.assume_err)
        return self._config.all_bound

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """Do nothing, or raise `bind_err`.

        Parameters
        ----------
        assumed_pod : Pod
            Ignored.
        """
        self.bind_called = True
        _raise(self._config.bind_err)

    def get_bindings_cache(self) -> None:
        """Return None: there is no cache of decisions."""


def _raise(error: Exception | None) -> None:
    """Raise an error, if there is one."""
    if error is not None:
        raise error


new_fake_volume_binder = FakeVolumeBinder
