"""What nodes cost per hour, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET, UnsetType

from moorage.lazy import NamedTuple

UNKNOWN = float("inf")
"""The price of an offering of which none is known."""


def rounded(price: float) -> float:
    """Return a price as documents have it: without the digits in which sums of floats are off."""
    return float(f"{price:.12g}")


def price_text(price: float) -> str:
    """Return the price of a node or a type as texts and tables have it."""
    return f"{price:.4g}"


def sum_text(price: float) -> str:
    """Return the price of several nodes, or a share of one, as texts and tables have it."""
    return f"{price:.2g}" if 0 < price < 0.1 else f"{price:.2f}"


class HourlyCost(NamedTuple):
    """What nodes cost per hour, at least and at most: nothing and without an end where that is not known. A
    spot price that is not known is at most that on demand."""

    least: float = 0.0
    most: float = UNKNOWN

    @classmethod
    def of(cls, least: float | UnsetType, most: float | None) -> HourlyCost:
        """Return the price of an answer.

        Parameters
        ----------
        least, most : float
            As `shown` has made them: the least where it is less, the most where it is known.
        """
        if most is None:
            return cls()
        return cls(most if least is UNSET else least, most)

    @classmethod
    def total(cls, prices: Iterable[HourlyCost]) -> HourlyCost:
        """Return a sum."""
        every = list(prices)
        return cls(sum([price.least for price in every], 0.0), sum([price.most for price in every], 0.0))

    @property
    def is_known(self) -> bool:
        """Whether it has an end."""
        return self.most < UNKNOWN

    @property
    def shown(self) -> tuple[float | None, float | UnsetType]:
        """What answers have: the most, None if it is not known; the least, where it is less."""
        if not self.is_known:
            return None, UNSET
        most, least = rounded(self.most), rounded(self.least)
        return most, least if least < most else UNSET

    def text(self, form: Callable[[float], str] = sum_text, unit: str = " $/h") -> str:
        """Return the price, its range, or its bound.

        Parameters
        ----------
        form : callable, optional
            Returns the text of an amount; by default as of a sum.
        unit : str
            Follows the amounts.
        """
        zero, least, most = map(form, (0.0, *self))
        if least == most:
            return f"{most}{unit}"
        is_bound = self.least <= 0 or least == zero
        return f"at most {most}{unit}" if is_bound else f"{least} to {most}{unit}"
