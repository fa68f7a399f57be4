"""The rules by which something is wrong in a cluster, the worst first."""

from __future__ import annotations

from typing import NamedTuple

ERROR, WARNING, INFO = LEVELS = ("error", "warning", "info")
"""Something does not work now; it will not at the next drain, rollout or failure; it may be meant."""
EXPLAIN, DESCRIBE = "moorage explain {target}", "kubectl describe {kind} {name}{of}"


class Rule(NamedTuple):
    """A kind of finding.

    Attributes
    ----------
    more : str
        The command that shows more.
    """

    level: str
    more: str = DESCRIBE


RULES = {
    "node-condition": Rule(ERROR, "moorage explain node/{name}"),
    "webhook-unserved": Rule(ERROR),
    "pod-waits": Rule(ERROR, EXPLAIN),
    "not-scheduled": Rule(ERROR),
    "wrong-os": Rule(ERROR, EXPLAIN),
    "device-tainted": Rule(ERROR, "moorage nodes --by device"),
    "pod-not-ready": Rule(ERROR),
    "rollout-waits": Rule(ERROR, EXPLAIN),
    "job-failed": Rule(ERROR),
    "autoscaler-cannot-act": Rule(ERROR),
    "autoscaler-target": Rule(ERROR),
    "recommendation-too-large": Rule(ERROR),
    "namespace-deleted": Rule(ERROR),
    "claim-held": Rule(ERROR),
    "budget-blocks": Rule(WARNING, "moorage plan drain --all"),
    "budgets-overlap": Rule(WARNING, "moorage plan drain --all"),
    "quota-stops-rollout": Rule(WARNING, "moorage check --restart {target}"),
    "spread-broken": Rule(WARNING, EXPLAIN),
    "one-node": Rule(WARNING, "moorage check --survive node"),
    "one-zone": Rule(WARNING, "moorage check --survive zone"),
    "autoscaler-at-maximum": Rule(WARNING),
    "device-missing": Rule(WARNING, "moorage explain node/{name}"),
    "volume-released": Rule(WARNING),
    "selects-nothing": Rule(WARNING),
    "node-named": Rule(WARNING),
    "refused-before": Rule(WARNING),
    "one-replica": Rule(INFO, "moorage check --survive node"),
    "no-controller": Rule(INFO, "moorage plan drain --all"),
    "no-requests": Rule(INFO, "moorage nodes --by workload"),
    "daemons-without-node": Rule(INFO),
    "duplicate-port": Rule(INFO),
}
"""By name, the worst first."""
