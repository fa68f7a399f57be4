"""Deterministic names, UIDs and hashes in place of the random ones of Kubernetes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from ..model.workload import PodTemplateSpec

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names, without vowels and digits that look like letters (apimachinery, rand)."""
_PAIRS = [first + second for second in _ALPHABET for first in _ALPHABET]
_SUFFIX_LENGTH = 5
_MAX_BASE = 63 - _SUFFIX_LENGTH
_SPACE = len(_ALPHABET) ** _SUFFIX_LENGTH
_STEP = 8_675_309
"""Coprime to `_SPACE`, so that all suffixes occur before one repeats."""


def stable_uid(kind: str, namespace: str, name: str) -> str:
    """Return a UID derived from the identity of an object.

    Parameters
    ----------
    kind, namespace, name : str
        Identity of the object.

    Returns
    -------
    str
        In the form of a UUID; equal arguments give equal UIDs.
    """
    digest = hashlib.sha1(f"{kind}/{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def template_hash(template: PodTemplateSpec) -> str:
    """Return a hash of a template for labels such as ``pod-template-hash``.

    It differs from the hash of the controllers, which depends on Go's memory layout.

    Parameters
    ----------
    template : PodTemplateSpec
        Pod template.

    Returns
    -------
    str
        10 characters.
    """
    return _letters(_hash(msgspec.json.encode(template, order="deterministic")), 10)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.sha1(data, usedforsecurity=False).digest()[:8], "big")


def _letters(number: int, length: int) -> str:
    letters = ""
    while len(letters) < length:
        number, pair = divmod(number, len(_PAIRS))
        letters += _PAIRS[pair]
    return letters[:length]


def generated_names(base: str, seed: str) -> Iterator[str]:
    """Iterate over the candidates for a name from ``generateName``.

    Each is `base`, cut to 58 characters, and a suffix of five characters; suffixes repeat after 14 million.

    Parameters
    ----------
    base : str
        Prefix, as in ``generateName``.
    seed : str
        Determines the first suffix.

    Yields
    ------
    str
        A candidate.
    """
    number = _hash(seed.encode())
    while True:
        number %= _SPACE
        yield base[:_MAX_BASE] + _letters(number, _SUFFIX_LENGTH)
        number += _STEP


class Names:
    """Used names by kind and namespace; generates names for ``generateName``."""

    def __init__(self) -> None:
        self._taken: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._generated: dict[tuple[str, str, str], Iterator[str]] = {}

    def take(self, kind: str, namespace: str, name: str) -> bool:
        """Reserve a name.

        Parameters
        ----------
        kind, namespace, name : str
            Identity of the object.

        Returns
        -------
        bool
            False if the name was taken.
        """
        taken = self._taken[kind, namespace]
        if name in taken:
            return False
        taken.add(name)
        return True

    def generate(self, kind: str, namespace: str, base: str) -> str:
        """Generate and reserve a name: `base` with a suffix of five characters.

        Parameters
        ----------
        kind, namespace : str
            Kind and namespace of the object.
        base : str
            Prefix, as in ``generateName``.
        """
        candidates = self.candidates(kind, namespace, base)
        return next(name for name in candidates if self.take(kind, namespace, name))

    def candidates(self, kind: str, namespace: str, base: str) -> Iterator[str]:
        """Return the names that follow the last one that was made from `base`."""
        key = (kind, namespace, base[:_MAX_BASE])
        if key not in self._generated:
            self._generated[key] = generated_names(base, "/".join(key))
        return self._generated[key]
