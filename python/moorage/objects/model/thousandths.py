"""Quantities as the API server keeps them: rounded up to thousandths (v1.36, SetDefaults_ResourceList)."""

from __future__ import annotations

from moorage._core.base.quantity import Quantity, parse

from .meta import QuantityLike, Resources

_MICRO, _MEGA = Quantity("1u"), Quantity("1M")


def thousandths(raw: QuantityLike) -> Quantity:
    """Return a quantity, rounded up to thousandths.

    Parameters
    ----------
    raw : str, int or float
        A quantity as written in a manifest.

    Returns
    -------
    Quantity
    """
    quantity = parse(raw)
    rounded = quantity * _MICRO * _MEGA  # products are rounded up to 10**-9
    return quantity if rounded == quantity else rounded


def in_thousandths(resources: Resources) -> Resources:
    """Round the quantities of a resource list up to thousandths.

    Parameters
    ----------
    resources : dict of str to QuantityLike

    Returns
    -------
    dict of str to QuantityLike
        `resources` itself if none is finer.
    """
    finer: Resources = {}
    for name, raw in resources.items():
        text = str(raw)
        if text.isalnum() and text[-1] not in "nu":
            continue  # neither a fraction nor a negative exponent
        rounded = thousandths(raw)
        if rounded != parse(raw):
            finer[name] = str(rounded)
    return resources | finer if finer else resources
