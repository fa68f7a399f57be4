"""Extender: a program beside the scheduler that filters, scores, preempts or binds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from moorage.objects import Node, Pod


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would have to leave one node, in the order in which they are deleted.

    Attributes
    ----------
    num_pdb_violations : int
        How many of them a PodDisruptionBudget does not allow to go.
    """

    pods: tuple[Pod, ...]
    num_pdb_violations: int = 0


class Extender(Protocol):
    """kube-scheduler v1.36, framework/extender.go. What asks it may raise ExtenderError."""

    @property
    def name(self) -> str:
        """Its URL prefix."""

    @property
    def weight(self) -> int:
        """What its scores are multiplied by."""

    @property
    def is_ignorable(self) -> bool:
        """Whether the cycle goes on without it where it fails. Where it fails to score, it always does."""

    @property
    def is_filter(self) -> bool: ...

    @property
    def empties_nodes(self) -> bool:
        """Whether nodes that it lets pass are scored as if they had neither pods nor images: those that it
        is sent whole, and sends back (v1.34 to v1.36; kubernetes issue 141781)."""

    @property
    def is_prioritizer(self) -> bool: ...

    @property
    def is_binder(self) -> bool: ...

    @property
    def supports_preemption(self) -> bool: ...

    def is_interested(self, pod: Pod) -> bool:
        """Whether the extender is called for a pod: it manages a resource that the pod asks for, or all."""

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """The names of `nodes` that pass, in its order; those that do not with the reason; those that never
        will with the reason. All of them, where it is no filter."""

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Scores by node before the weight, from 0 to 10 by the rules; 0 where it is no prioritizer."""

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod in the scheduler's stead."""

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """The candidate nodes that are left, by name in sorted order, with the victims that the extender
        wants there. They are pods of that node, but need not be among those it was offered, and may be none.
        """
