"""What several passes over the same instance types keep: their labels, and the types as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moorage.autoscalers.instance_types.instance_type import InstanceType
from moorage.autoscalers.instance_types.shortages import with_shortages

from ..karpenter_options import KarpenterOptions
from ..requirements.requirement_set import Vocabulary
from .type_columns import KnownType, OfferingSets, TypeColumns, known_type


class Catalogue:
    """Instance types as passes read them, each once; all passes that share it have the same options."""

    def __init__(self, options: KarpenterOptions) -> None:
        self.vocabulary = Vocabulary(options.provider)
        self.options = options
        self._types: dict[InstanceType, KnownType] = {}
        self._columns: dict[tuple[KnownType, ...], TypeColumns] = {}
        self._offering_sets: OfferingSets = {}

    def known(self, types: Iterable[InstanceType]) -> list[KnownType]:
        found = []
        for one in types:
            if one not in self._types:
                there = with_shortages(one, self.options.unavailable)
                self._types[one] = known_type(there, self.vocabulary, self._offering_sets)
            found.append(self._types[one])
        return found

    def columns(self, types: Sequence[KnownType]) -> TypeColumns:
        key = tuple(types)
        if key not in self._columns:
            self._columns[key] = TypeColumns(key)
        return self._columns[key]
