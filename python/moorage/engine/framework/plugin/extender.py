"""Extender: the interface of external programs that filter, score, preempt or bind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from moorage.kube import Node, Pod


class Victims(Struct, frozen=True):
    """The victims of a preemption on one node.

    Attributes
    ----------
    pods : sequence of Pod
        Pods to evict, in the order of their deletion.
    num_pdb_violations : int
        Number of victims that a PodDisruptionBudget protects.
    """

    pods: Sequence[Pod]
    num_pdb_violations: int = 0


class Extender(Protocol):
    """An external program that takes part in scheduling (kube-scheduler v1.36, framework/extender.go).

    Its methods may raise ExtenderError.
    """

    @property
    def name(self) -> str:
        """The URL prefix of the extender."""

    @property
    def weight(self) -> int:
        """The factor of the extender's scores."""

    @property
    def is_ignorable(self) -> bool:
        """Whether failures of the extender are ignored; failures of `prioritize` always are."""

    @property
    def is_filter(self) -> bool:
        """Whether the extender filters nodes."""

    @property
    def returns_bare_nodes(self) -> bool:
        """Whether the extender exchanges whole nodes instead of names.

        Such nodes are then scored as if they had neither pods nor images (v1.34 to v1.36; kubernetes issue
        141781).
        """

    @property
    def is_prioritizer(self) -> bool:
        """Whether the extender scores nodes."""

    @property
    def is_binder(self) -> bool:
        """Whether the extender binds pods."""

    @property
    def supports_preemption(self) -> bool:
        """Whether the extender takes part in preemption."""

    def is_interested(self, pod: Pod) -> bool:
        """Whether the extender is called for a pod.

        It is called for all pods, or for those that request a managed resource.
        """

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Filter nodes.

        Parameters
        ----------
        nodes : sequence of Node
            Feasible nodes so far.

        Returns
        -------
        list of str
            Names of the nodes that pass, in the extender's order; all of them if it does not filter.
        dict of str to str
            Reason by rejected node.
        dict of str to str
            Reason by node rejected as unresolvable.
        """

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Return the scores of nodes before the weight is applied.

        Parameters
        ----------
        nodes : sequence of Node
            The feasible nodes.

        Returns
        -------
        dict of str to int
            Score by node, 0 to 10 by the protocol; 0 if the extender does not score.
        """

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod."""

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Filter the candidate nodes of a preemption.

        Parameters
        ----------
        pod : Pod
            The preemptor.
        victims : mapping of str to Victims
            Victims by candidate node.

        Returns
        -------
        dict of str to Victims
            The remaining candidates, sorted by name, with the extender's victims: pods of the node, which may
            differ from `victims`, or none.
        """
