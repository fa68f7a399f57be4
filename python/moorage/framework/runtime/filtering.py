"""Running PreFilter, Filter and PostFilter (kube-scheduler v1.36, framework/runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.interface import (
    FilterPlugin,
    NominatingInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
)
from moorage.framework.plugin.nodes_view import NodesView
from moorage.framework.plugin.status import Code, Status, error_status, is_success
from moorage.objects.model.pod import Pod

from .call import StatusError, ask, wrong_answer

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class PreFilterRun:
    """What PreFilter made of a pod.

    Attributes
    ----------
    rejection : Status or None
        A rejection, which speaks for all nodes, or an Error.
    node_names : frozenset of str or None
        The only nodes to search.
    plugins : tuple of str
        Who narrowed the search, sorted.
    skipped : frozenset of str
        Plugins whose Filter is passed over.
    """

    rejection: Status | None = None
    node_names: frozenset[str] | None = None
    plugins: tuple[str, ...] = ()
    skipped: frozenset[str] = field(default_factory=frozenset)

    @property
    def absent(self) -> Status | None:
        """The status of nodes outside `node_names`."""
        if self.node_names is None:
            return None
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(self.plugins)}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    @property
    def error(self) -> str:
        """Text of the Error that fails the cycle, or ""."""
        failed = self.rejection is not None and not self.rejection.is_rejected
        return self.rejection.message() if failed and self.rejection is not None else ""


def ask_pre_filter(
    plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: NodesView
) -> tuple[PreFilterResult | None, Status | None]:
    try:
        answer = ask(plugin, pod, plugin.pre_filter, state, pod, nodes)
    except StatusError as error:
        return None, error.status
    if isinstance(answer, PreFilterResult):
        return answer, None
    if answer is None or isinstance(answer, Status):
        return None, answer
    return None, wrong_answer(plugin, answer, "a PreFilterResult or a Status")


def nothing_left(plugins: Sequence[str]) -> Status:
    who = f"plugin {plugins[0]}" if len(plugins) == 1 else f"plugin(s) [{' '.join(plugins)}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy {who}",))


def filter_status(plugin: FilterPlugin, status: Status | None) -> Status | None:
    """What a Filter plugin answered, as the runtime passes it on: None, a rejection, or an Error."""
    if is_success(status) or status is None:
        return None
    if not status.is_rejected:
        return error_status(f'running "{plugin.name}" filter plugin', status, plugin.name)
    return status.with_plugin(plugin.name)


def ask_post_filter(
    plugin: PostFilterPlugin, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
) -> tuple[PostFilterResult | None, Status | None]:
    try:
        answer = ask(plugin, pod, plugin.post_filter, state, pod, statuses)
    except StatusError as error:
        return None, error.status
    match answer:
        case (None | NominatingInfo() as result, None | Status() as status):
            return result, status
        case _:
            return None, wrong_answer(plugin, answer, "(PostFilterResult, Status)")
