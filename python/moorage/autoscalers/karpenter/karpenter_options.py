"""How Karpenter is set up: its flags, gates and what its provider knows."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.kube import TopologySpreadConstraint

from ..instance_types.shortages import Shortage
from ..providers.registrations import NOTHING, Registration

VERSION = "1.15.0"
"""The release of Karpenter whose decisions are made."""
MOST_TYPES = 600


@dataclass(frozen=True)
class KarpenterOptions:
    """Flags of Karpenter.

    Attributes
    ----------
    ignores_preferences : bool
        ``--preference-policy=Ignore``.
    best_effort : bool
        ``--min-values-policy=BestEffort``.
    reserved_capacity : bool
        The feature gate ReservedCapacity.
    spot_to_spot, terminate_first : bool
        The feature gates SpotToSpotConsolidation and TerminateFirstDrift.
    ignore_dra_requests : bool
        ``--ignore-dra-requests``: no node comes for pods with resource claims. Without it they are packed as
        if they had none: which types have which devices is not known.
    default_spreads : tuple of TopologySpreadConstraint
        Of ``--scheduler-config``: for pods without constraints of their own.
    unavailable : tuple of frozenset of str
        Offerings that cannot be launched now: their capacity type, instance type, zone, or several of these.
    most_types : int
        So many instance types a NodeClaim names.
    provider : Registration
        What the provider registers.
    source : str
        Where the flags are from; "" for options.
    seed : int
        Chooses among domains that nothing else orders; 0 takes them by name.
    """

    ignores_preferences: bool = False
    best_effort: bool = False
    reserved_capacity: bool = True
    spot_to_spot: bool = False
    terminate_first: bool = False
    ignore_dra_requests: bool = True
    default_spreads: tuple[TopologySpreadConstraint, ...] = ()
    unavailable: tuple[Shortage, ...] = ()
    most_types: int = MOST_TYPES
    provider: Registration = NOTHING
    source: str = ""
    seed: int = 0

    @property
    def text(self) -> str:
        """What else an answer rests on than Karpenter's defaults: ``; …`` for the end of a line."""
        parts = [self.source] * bool(self.source) + ["preferences ignored"] * self.ignores_preferences
        return "".join(f"; {part}" for part in parts) + self.shortage_text

    @property
    def shortage_text(self) -> str:
        """What cannot be launched, in the same way."""
        return "".join(f"; without {'/'.join(sorted(one))}" for one in self.unavailable)
