"""A plugin with types. `make lint` accepts it in strict mode, as the mypy of a user would."""

import moorage as mo


class Cheap(mo.FilterPlugin, mo.ScorePlugin):
    name = "Cheap"

    def filter(self, state: mo.CycleState, pod: mo.Pod, node_info: mo.NodeInfo) -> mo.Status | None:
        node: mo.Node | None = node_info.node
        if node is None or "cheap" in node.metadata.labels:
            return None
        return mo.Status(mo.Code.UNSCHEDULABLE, (f"{len(node_info.pods)} pods",))

    def score(self, state: mo.CycleState, pod: mo.Pod, node_info: mo.NodeInfo) -> int:
        return 100 - len(node_info.pods)


def plan(scheduler: mo.Scheduler, pod: mo.Pod) -> mo.ScheduleResult:
    change: mo.Change = scheduler.change.drain("n", respect_budgets=False)
    fits: mo.Feasibility = scheduler.can_schedule_pod(mo.edit(pod, {"spec.priority": 1}))
    rollouts: list[mo.Rollout] = scheduler.ask.rollouts()
    difference: mo.Difference = scheduler.fork().ask.diff(scheduler)
    print(change, fits, rollouts, difference)
    return scheduler.schedule_pods([pod], dry_run=True)
