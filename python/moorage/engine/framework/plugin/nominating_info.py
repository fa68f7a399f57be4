"""NominatingInfo: a change of a pod's nomination."""

from __future__ import annotations

from msgspec import Struct


class NominatingInfo(Struct, frozen=True):
    """A change of a pod's nomination, which PostFilter returns with its status.

    Attributes
    ----------
    nominated_node_name : str
        The new node; "" removes the nomination.
    noop : bool
        Whether the nomination is unchanged: the node of the pod's own status.
    """

    nominated_node_name: str = ""
    noop: bool = False
