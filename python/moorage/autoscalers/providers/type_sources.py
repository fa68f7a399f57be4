"""What options name of a provider's types, and in which region a cluster is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from moorage.errors import InputError, examples

from .aws.ec2_answers import NO_ANSWERS, Ec2Answers, region_of
from .aws.node_class import DEFAULTS, ProviderOptions
from .prices import NO_PRICES, OwnPrices

AWS, GCP, AZURE = "aws", "gcp", "azure"


def _region_by(pattern: str) -> Callable[[str], str]:
    known = re.compile(pattern)
    return lambda place: matched[1] if (matched := known.fullmatch(place)) else ""


REGION_OF: Mapping[str, Callable[[str], str]] = {
    AWS: region_of,
    GCP: _region_by(r"([a-z]+-[a-z]+\d+)(-[a-z])?"),
    AZURE: _region_by(r"([a-z]+\d*)(-\d)?"),
}
"""The region of a zone or region by its name, by provider; "" for another text."""
_EXAMPLES = {
    AWS: "aws, aws:us-east-1, or aws:us-east-1a,us-east-1b with zones of one region",
    GCP: "gcp, gcp:us-central1, or gcp:us-central1-a,us-central1-b with zones of one region",
    AZURE: "azure, or azure:westus2",
}


@dataclass(frozen=True)
class TypeSources:
    """What options name of a provider: no more than that for ``aws``, and nothing without an option.

    Attributes
    ----------
    provider : str
        ``aws``, ``gcp``, ``azure``; "" if none is named.
    region, zones : str, tuple of str
        Those of ``aws:REGION`` or ``aws:ZONE,ZONE``.
    answers : Ec2Answers
        Of AWS.
    prices : OwnPrices
        For the types of all providers.
    flags : ProviderOptions
        Of the provider for AWS.
    """

    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    answers: Ec2Answers = NO_ANSWERS
    prices: OwnPrices = NO_PRICES
    flags: ProviderOptions = DEFAULTS

    def price(self, name: str, zone: str, capacity_type: str) -> float | None:
        """Return the price that files have of a type; None for none."""
        own = self.prices.of(name, zone, capacity_type)
        if own is None and capacity_type == "spot" and self.answers.spot_prices is not None:
            return self.answers.spot_prices.get(name, {}).get(zone)
        return own

    @classmethod
    def of(cls, text: str) -> TypeSources:
        """Read the text.

        Raises
        ------
        InputError
            It names no region, or zones of several.
        """
        provider, colon, listed = text.partition(":")
        names = listed.split(",") if colon else []
        regions = {REGION_OF[provider](each) for each in names}
        if len(regions) > 1 or "" in regions:
            raise InputError(f'"{text}" names no region: write {_EXAMPLES[provider]}')
        return cls(provider, "".join(regions), tuple([each for each in names if each not in regions]))


def names_provider(text: str) -> bool:
    """Whether a text is a provider, such as ``aws`` or ``gcp:us-central1``, and not a file."""
    return text.partition(":")[0] in REGION_OF


def region_among(provider: str, given: str, places: Iterable[str], pool: str) -> str:
    """Return the region of a cluster: that of the option, which has to agree with the places that its
    objects name, else theirs.

    Raises
    ------
    InputError
        It is not known, or they are several.
    """
    own = sorted({*map(REGION_OF[provider], places)} - {""})
    if own and given and given not in own:
        names = f"--instance-types names {given}"
        raise InputError(f"{names}, and nodes, node classes, volumes and pools are in {examples(own, 3)}")
    if given or len(own) == 1:
        return given or own[0]
    why = f"may be {examples(own, 3)}" if own else "is not known: no node, subnet or pool names one"
    text = f"the region of its node class {why}; give it with --instance-types {provider}:REGION"
    raise InputError(text, obj=f"NodePool {pool}")
