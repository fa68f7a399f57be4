"""Names, UIDs and hashes that Kubernetes makes up at random: here they follow from the input."""

from __future__ import annotations

import hashlib

import msgspec

from .workload import PodTemplateSpec

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names: no vowels, no digits that look like letters (apimachinery, rand)."""
_SUFFIX_LENGTH = 5
_MAX_BASE = 63 - _SUFFIX_LENGTH
_SPACE = len(_ALPHABET) ** _SUFFIX_LENGTH
_STEP = 8_675_309
"""Prime to `_SPACE`, so that `_SPACE` numbers in a row give as many different suffixes."""


def stable_uid(kind: str, namespace: str, name: str) -> str:
    """A UID that depends on the object's identity alone; different objects have different ones."""
    digest = hashlib.sha1(f"{kind}/{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def template_hash(template: PodTemplateSpec) -> str:
    """The value of a label like ``pod-template-hash``: the same for equal templates.

    It is not the hash that the controllers compute, which depends on Go's memory layout.
    """
    return _letters(_hash(msgspec.json.encode(template, order="deterministic")), 10)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.sha1(data, usedforsecurity=False).digest()[:8], "big")


def _letters(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


class Names:
    """The names that are taken, by kind and namespace; makes up new ones for ``generateName``."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str, str]] = set()
        self._next: dict[tuple[str, str, str], int] = {}

    def take(self, kind: str, namespace: str, name: str) -> bool:
        """Reserve a name; false if it was taken."""
        entry = (kind, namespace, name)
        if entry in self._taken:
            return False
        self._taken.add(entry)
        return True

    def generate(self, kind: str, namespace: str, base: str) -> str:
        """Reserve and return `base` with a suffix of five characters."""
        base = base[:_MAX_BASE]
        key = (kind, namespace, base)
        number = self._next[key] if key in self._next else _hash("/".join(key).encode()) % _SPACE
        while True:
            name = base + _letters(number, _SUFFIX_LENGTH)
            number = (number + _STEP) % _SPACE
            if self.take(kind, namespace, name):
                self._next[key] = number
                return name
