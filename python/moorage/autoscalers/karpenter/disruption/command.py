"""What Karpenter would do with nodes: delete some, or replace them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import msgspec
from msgspec import Struct

from ..new_nodes_result import FinishedClaim, NewClaim, new_claim
from .candidates import NodeCandidate, price_of

DELETE, REPLACE, TERMINATE_FIRST = "delete", "replace", "terminate-first"


class Command(Struct, eq=False):
    """A decision about nodes.

    Attributes
    ----------
    replacements : list of FinishedClaim
        The nodes that come in their place.
    moves : dict of str to tuple of str
        By node, the pods that it takes; those that wait are among them.
    terminate_first : str
        Why no replacement can be made before.
    """

    candidates: Sequence[NodeCandidate]
    replacements: list[FinishedClaim] = msgspec.field(default_factory=list)
    moves: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    terminate_first: str = ""

    @property
    def decision(self) -> str:
        return REPLACE if self.replacements else TERMINATE_FIRST if self.terminate_first else DELETE

    @property
    def source_price(self) -> float:
        return sum(one.price for one in self.candidates)

    @property
    def savings(self) -> float:
        """Per hour; a replacement counts with the cheapest offering of its first type."""
        new = 0.0
        for one in self.replacements:
            best = one.offers.best[one.places[0]] if one.places else None
            new += best.price if best is not None else 0.0
        return self.source_price - new

    @property
    def known_savings(self) -> float | None:
        """The savings; None if a node that goes or comes has no known price."""
        gone = [price_of(one.instance_type, one.state) for one in self.candidates]
        come = [one.offers.best[one.places[0]] if one.places else None for one in self.replacements]
        is_known = None not in gone and all(one is not None and one.price < inf for one in come)
        return self.savings if is_known else None

    def new_claims(self) -> tuple[NewClaim, ...]:
        """The replacements as they would be created, in order of their creation."""
        ordered = sorted(self.replacements, key=lambda one: one.claim.name)
        return tuple([new_claim(one) for one in ordered])

    def text_about(self, one: NodeCandidate) -> str:
        """Karpenter's text about the part of one node."""
        if len(self.candidates) > 1:
            return f"{self.decision}: [{one.name}] (part of {len(self.candidates)}-node consolidation)"
        count = len(self.replacements)
        new = f" -> [{count} replacement{'s' * (count != 1)}]" if count else ""
        return f"{self.decision}: [{one.name}]{new}"
