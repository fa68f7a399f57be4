"""The rules by which something is wrong in a cluster, the worst first."""

from __future__ import annotations

from moorage.lazy import NamedTuple

ERROR, WARNING, INFO = LEVELS = ("error", "warning", "info")
"""Something does not work now; it will not at the next drain, rollout or failure; it may be meant."""
EXPLAIN, DESCRIBE = "moorage explain {target}", "kubectl describe {kind} {name}{of}"


class LintRule(NamedTuple):
    """A kind of finding.

    Attributes
    ----------
    more : str
        The command that shows more.
    """

    level: str
    more: str = DESCRIBE


RULES = {
    "node-condition": LintRule(ERROR, "moorage explain node/{name}"),
    "webhook-unserved": LintRule(ERROR),
    "pod-waits": LintRule(ERROR, EXPLAIN),
    "not-scheduled": LintRule(ERROR),
    "wrong-os": LintRule(ERROR, EXPLAIN),
    "device-tainted": LintRule(ERROR, "moorage nodes --by device"),
    "pod-not-ready": LintRule(ERROR),
    "rollout-waits": LintRule(ERROR, EXPLAIN),
    "job-failed": LintRule(ERROR),
    "autoscaler-cannot-act": LintRule(ERROR),
    "autoscaler-target": LintRule(ERROR),
    "recommendation-too-large": LintRule(ERROR),
    "namespace-deleted": LintRule(ERROR),
    "claim-held": LintRule(ERROR),
    "queue-admits-nothing": LintRule(ERROR, "moorage nodes --by queue"),
    "job-not-queued": LintRule(ERROR, EXPLAIN),
    "budget-blocks": LintRule(WARNING, "moorage plan drain --all"),
    "budgets-overlap": LintRule(WARNING, "moorage plan drain --all"),
    "budget-blocks-later": LintRule(WARNING),
    "quota-stops-rollout": LintRule(WARNING, "moorage check --restart {target}"),
    "spread-broken": LintRule(WARNING, EXPLAIN),
    "one-node": LintRule(WARNING, "moorage check --survive node"),
    "one-zone": LintRule(WARNING, "moorage check --survive zone"),
    "autoscaler-at-maximum": LintRule(WARNING),
    "device-missing": LintRule(WARNING, "moorage explain node/{name}"),
    "volume-released": LintRule(WARNING),
    "selects-nothing": LintRule(WARNING),
    "node-named": LintRule(WARNING),
    "quota-not-counted": LintRule(WARNING),
    "refused-before": LintRule(WARNING),
    "one-replica": LintRule(INFO, "moorage check --survive node"),
    "no-controller": LintRule(INFO, "moorage plan drain --all"),
    "no-budget": LintRule(INFO, "moorage plan drain --all"),
    "no-requests": LintRule(INFO, "moorage nodes --by workload"),
    "daemons-without-node": LintRule(INFO),
    "duplicate-port": LintRule(INFO),
}
"""By name, the worst first."""
