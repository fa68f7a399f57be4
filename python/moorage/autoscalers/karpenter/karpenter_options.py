"""How Karpenter is set up: its flags, gates and what its provider knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from moorage.errors import InputError, examples, located, nearest, shorten
from moorage.kube import Object, TopologySpreadConstraint
from moorage.kube.model.autoscaling import KarpenterSettings

from ..providers.aws.node_class import ProviderOptions
from ..providers.instance_type import Shortage, labelled
from ..providers.known_labels import NOTHING, KnownLabels

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
    node_repair, capacity_buffers : bool
        The feature gates NodeRepair and CapacityBuffer. Without Karpenter's Deployment buffers count.
    ignore_dra_requests : bool
        ``--ignore-dra-requests``: no node comes for pods with resource claims. Without it they are packed as
        if they had none: which types have which devices is not known.
    default_spreads : tuple of TopologySpreadConstraint
        Of ``--scheduler-config``: for pods without constraints of their own.
    unavailable : tuple of frozenset of str
        Offerings that cannot be launched now: their capacity type, instance type, zone, a label as
        ``key=value``, or several of these.
    most_types : int
        So many instance types a NodeClaim names.
    provider : KnownLabels
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
    node_repair: bool = False
    capacity_buffers: bool = True
    ignore_dra_requests: bool = True
    default_spreads: tuple[TopologySpreadConstraint, ...] = ()
    unavailable: tuple[Shortage, ...] = ()
    most_types: int = MOST_TYPES
    provider: KnownLabels = NOTHING
    source: str = ""
    seed: int = 0

    def without(self, lost: Iterable[tuple[str, str]]) -> KarpenterOptions:
        """The same where nothing can be launched with some labels."""
        gone = [frozenset(labelled({label: value})) for label, value in lost]
        return replace(self, unavailable=(*self.unavailable, *gone))

    @property
    def text(self) -> str:
        """What else an answer rests on than Karpenter's defaults: ``; …`` for the end of a line."""
        parts = [self.source] * bool(self.source) + ["preferences ignored"] * self.ignores_preferences
        return "".join(f"; {part}" for part in parts) + self.shortage_text

    @property
    def shortage_text(self) -> str:
        """What cannot be launched, in the same way."""
        return "".join(f"; without {'/'.join(sorted(each))}" for each in self.unavailable)


# ---- how Karpenter is set up, as its Deployment in a cluster says ------------------------------------------
# Names: Karpenter v1.15.0, pkg/operator/options, and that of the provider for AWS.

V = TypeVar("V", bool, int, float)
_POLICIES = {"PREFERENCE_POLICY": ("Respect", "Ignore"), "MIN_VALUES_POLICY": ("Strict", "BestEffort")}
_NOT_READ = ("SCHEDULER_CONFIG",)
"""What decides, too, but is not read."""
_GATES = frozenset(
    {
        *("CapacityBuffer", "NodeOverlay", "NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation"),
        *("StaticCapacity", "TerminateFirstDrift"),
    }
)


def settings_in(objects: Iterable[Object]) -> KarpenterSettings | None:
    """Return the settings of the first Deployment of Karpenter; None for none."""
    return next((each for each in objects if isinstance(each, KarpenterSettings)), None)


def karpenter_flags(settings: KarpenterSettings | None) -> KarpenterOptions:
    """Return Karpenter's flags; its defaults without settings.

    Raises
    ------
    InputError
        Names the Deployment and the variable.
    """
    if settings is None:
        return KarpenterOptions()
    usual, gates = KarpenterOptions(), _gates(settings, "FEATURE_GATES")
    notes = [f"{name} not read" for name in _NOT_READ if settings.values.get(name)]
    notes += [
        f"gate {name} not known{nearest(name, _GATES).replace('; ', ', ')}"
        for name in gates
        if name not in _GATES
    ]
    return KarpenterOptions(
        ignores_preferences=_policy(settings, "PREFERENCE_POLICY"),
        best_effort=_policy(settings, "MIN_VALUES_POLICY"),
        reserved_capacity=gates.get("ReservedCapacity", usual.reserved_capacity),
        spot_to_spot=gates.get("SpotToSpotConsolidation", usual.spot_to_spot),
        terminate_first=gates.get("TerminateFirstDrift", usual.terminate_first),
        node_repair=gates.get("NodeRepair", usual.node_repair),
        capacity_buffers=gates.get("CapacityBuffer", False),
        ignore_dra_requests=_value(settings, "IGNORE_DRA_REQUESTS", usual.ignore_dra_requests),
        source=", ".join([f"flags of {_name(settings)}", *notes]),
    )


def provider_flags(settings: KarpenterSettings | None) -> ProviderOptions:
    """Return the flags of the provider for AWS; see `karpenter_flags`."""
    usual = ProviderOptions()
    if settings is None:
        return usual
    return ProviderOptions(
        _value(settings, "VM_MEMORY_OVERHEAD_PERCENT", usual.vm_memory_overhead),
        _value(settings, "RESERVED_ENIS", usual.reserved_enis),
        _gates(settings, "AWS_FEATURE_GATES").get("NodeClassCEL", usual.cel),
    )


def has_overlays(settings: KarpenterSettings | None) -> bool:
    """Whether the feature gate NodeOverlay is on; without settings it is where there are NodeOverlays."""
    return settings is None or _gates(settings, "FEATURE_GATES").get("NodeOverlay", False)


def _name(settings: KarpenterSettings) -> str:
    return f"deployment {settings.key}"


def _policy(settings: KarpenterSettings, name: str) -> bool:
    """Whether a policy is the second of two."""
    usual, other = _POLICIES[name]
    value = settings.values.get(name, usual)
    if value not in (usual, other):
        text = f'must be {usual} or {other}, not "{shorten(value)}"'
        raise InputError(text, source=_name(settings), path=name)
    return value == other


def _value(settings: KarpenterSettings, name: str, usual: V) -> V:
    with located(source=_name(settings), path=name):
        try:
            return msgspec.convert(settings.values.get(name, usual), type(usual), strict=False)
        except msgspec.ValidationError:
            kind = "true or false" if isinstance(usual, bool) else "a number"
            raise InputError(f'must be {kind}, not "{shorten(settings.values[name])}"') from None


def _gates(settings: KarpenterSettings, name: str) -> dict[str, bool]:
    """Feature gates, as ``A=true,B=false``."""
    pairs = [each.partition("=") for each in settings.values.get(name, "").split(",") if each]
    if wrong := [gate for gate, _, value in pairs if value.strip().lower() not in ("true", "false")]:
        text = f"must be GATE=true or GATE=false, for {shorten(examples(wrong, 3))}"
        raise InputError(text, source=_name(settings), path=name)
    return {gate.strip(): value.strip().lower() == "true" for gate, _, value in pairs}
