"""Extender: an external program that filters, scores, preempts or binds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from moorage.objects import Node, Pod


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims of a preemption on one node.

    Attributes
    ----------
    pods : tuple of Pod
        In the order of their deletion.
    num_pdb_violations : int
        How many of them a PodDisruptionBudget protects.
    """

    pods: tuple[Pod, ...]
    num_pdb_violations: int = 0


class Extender(Protocol):
    """kube-scheduler v1.36, framework/extender.go. Its methods may raise ExtenderError."""

    @property
    def name(self) -> str:
        """Its URL prefix."""

    @property
    def weight(self) -> int:
        """The factor of its scores."""

    @property
    def is_ignorable(self) -> bool:
        """Whether its failures are ignored; failures of `prioritize` always are."""

    @property
    def is_filter(self) -> bool: ...

    @property
    def returns_bare_nodes(self) -> bool:
        """Whether it receives and returns whole nodes, which are then scored as if they had neither pods nor
        images (v1.34 to v1.36; kubernetes issue 141781).
        """

    @property
    def is_prioritizer(self) -> bool: ...

    @property
    def is_binder(self) -> bool: ...

    @property
    def supports_preemption(self) -> bool: ...

    def is_interested(self, pod: Pod) -> bool:
        """Whether the extender is called for a pod: for all, or for one that requests a managed resource.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        bool
        """

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Filter nodes.

        Parameters
        ----------
        pod : Pod
        nodes : sequence of Node

        Returns
        -------
        list of str
            The names of the nodes that pass, in the extender's order; all of them where it is no filter.
        dict of str to str
            Rejected node to reason.
        dict of str to str
            Node that is rejected as unresolvable, to reason.
        """

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """The scores of nodes before the weight, 0 to 10 by the protocol; 0 where it is no prioritizer.

        Parameters
        ----------
        pod : Pod
        nodes : sequence of Node

        Returns
        -------
        dict of str to int
        """

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod.

        Parameters
        ----------
        pod : Pod
        node : str
        """

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Filter the candidate nodes of a preemption.

        Parameters
        ----------
        pod : Pod
            The preemptor.
        victims : mapping of str to Victims
            By candidate node.

        Returns
        -------
        dict of str to Victims
            The remaining candidates, sorted by name, with the extender's victims. These are pods of the node,
            but may be others than in `victims`, or none.
        """
