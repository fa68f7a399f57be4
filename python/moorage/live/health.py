"""Health and metrics of a live scheduler, over HTTPS, for those who may ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from moorage.store import ApiError

from .client import ApiClient, Connection
from .client.connection import read_answer
from .leader_lease import Election
from .web_server import HEALTH, Check, HttpRequest, Reply, WebServer, server_context
from .writer import NOTHING, Writer, write_durations

WRITES = (
    *("pod_binding", "pod_status_patch", "pod_eviction"),
    *("pod_group_status_patch", "resource_claim_patch", "event"),
)
"""What is written; upstream's names where it has one."""


class LiveMetrics:
    """What a live scheduler tells of itself, and an extender, whose steps follow the cluster.

    Parameters
    ----------
    client : ApiClient
        Whose kinds are looked at, and whose clock measures.

    Attributes
    ----------
    durations : Histogram
        Of the writers, which are appended to `writers`.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.durations, self.writers = write_durations(), list[Writer]()
        self.failed_steps = 0
        self.has_stepped()

    def has_stepped(self) -> None:
        """Note that a step has ended well."""
        self._stepped = self._client.connection.clock()

    def since_step(self) -> float:
        """Return the seconds since the last step that has ended well."""
        return self._client.connection.clock() - self._stepped

    def unreadable(self) -> dict[str, float]:
        """Return for how many seconds each kind could not be read."""
        now = self._client.connection.clock()
        since = {reflector.kind: reflector.unreadable_since for reflector in self._client.reflectors}
        return {kind: 0.0 if at is None else now - at for kind, at in since.items()}

    def text(self) -> bytes:
        """Render these metrics alone in the text format of Prometheus."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        yield from self.durations.collect()
        pending = [writer.pending() for writer in self.writers]
        by_write = {what: [of_writer.get(what, NOTHING) for of_writer in pending] for what in WRITES}
        in_flight = {what: sum(counts.running for counts in of) for what, of in by_write.items()}
        waiting = {what: sum(counts.waiting for counts in of) for what, of in by_write.items()}
        ages = {what: max((counts.age for counts in of), default=0.0) for what, of in by_write.items()}
        yield _gauge("moorage_writes_in_flight", "Writes that are not answered.", "call_type", in_flight)
        text = "Number of API calls currently pending in the async queue."
        yield _gauge("scheduler_pending_async_api_calls", text, "call_type", waiting)
        yield _gauge("moorage_oldest_write_seconds", "Age of the oldest write.", "call_type", ages)
        text = "For how long a kind could not be read; 0 while it can."
        yield _gauge("moorage_unreadable_kind_seconds", text, "kind", self.unreadable())
        text = "Steps of the scheduler that an error has broken off."
        yield CounterMetricFamily("moorage_failed_steps_total", text, value=self.failed_steps)
        text = "Time since the last step that has ended well."
        yield GaugeMetricFamily("moorage_last_step_seconds", text, value=self.since_step())


def _gauge(name: str, text: str, label: str, values: dict[str, int] | dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


# ---- health ------------------------------------------------------------------------------------------------
#
# A scheduler that is alive but schedules nothing has to be noticed. Where a restart may help, ``/livez``
# fails. Where a kind cannot be read, a restart does not help, because a new process has no copy of it and
# waits. Then ``/readyz`` fails.

WATCH_LIMIT = 300.0
"""Seconds that a kind may be without a word of the server: the longest backoff fits in several times."""
REFUSED_LIMIT = 120.0
"""Seconds for which credentials may be refused, or not be had."""
STEP_LIMIT = 300.0
"""Seconds in which a step has to end well."""
UNREADABLE_LIMIT = 60.0
"""Seconds for which a kind may be unreadable: an API server that restarts is away for less."""
WRITE_LIMIT = 60.0
"""Seconds for which a write may wait, and for its answer: two that are lost are given up in that time."""
LEASE_TOLERANCE = 20.0
"""Seconds for which a leader may be late to end after its Lease has run out (component-base v0.36,
cmd/kube-scheduler/app: NewLeaderHealthzAdaptor)."""
_age = attrgetter("age")


def liveness_checks(
    client: ApiClient, connections: Sequence[Connection], election: Election | None
) -> Mapping[str, Check]:
    """Return the checks of ``/livez`` and ``/healthz``.

    Parameters
    ----------
    client : ApiClient
        Whose reflectors are looked at.
    connections : sequence of Connection
        Whose credentials are looked at.

    Returns
    -------
    mapping of str to callable
        By name; each returns whether it passes. ``leaderElection`` is kube-scheduler's, ``watches`` fails if
        nothing was heard from the server about a kind for `WATCH_LIMIT`, ``credentials`` if they have been
        refused for `REFUSED_LIMIT`.
    """

    def are_accepted() -> bool:
        times = [(connection.clock(), connection.refused_since) for connection in connections]
        return all(since is None or now - since <= REFUSED_LIMIT for now, since in times)

    def are_heard() -> bool:
        now = client.connection.clock()
        return all(now - reflector.heard <= WATCH_LIMIT for reflector in client.reflectors)

    checks: dict[str, Check] = {"watches": are_heard, "credentials": are_accepted}
    if election is not None:
        checks["leaderElection"] = lambda: not election.is_overdue(LEASE_TOLERANCE)
    return checks


def follower_checks(client: ApiClient, metrics: LiveMetrics) -> Mapping[str, Check]:
    """Return `liveness_checks` of what only follows a cluster; ``steps`` fails if none has ended well for
    `STEP_LIMIT`."""
    steps = {"steps": lambda: metrics.since_step() <= STEP_LIMIT}
    return {**liveness_checks(client, [client.connection], None), **steps}


def readiness_checks(metrics: LiveMetrics, writer: Writer | None = None) -> Mapping[str, Check]:
    """Return the checks of ``/readyz`` that those of liveness do not have.

    Returns
    -------
    mapping of str to callable
        ``kinds`` fails if a kind could not be read for `UNREADABLE_LIMIT`, ``writes`` if a binding, a status,
        a claim or an eviction has waited for `WRITE_LIMIT`.
    """
    checks: dict[str, Check] = {
        "kinds": lambda: max(metrics.unreadable().values(), default=0.0) <= UNREADABLE_LIMIT,
    }
    if writer is not None:
        checks["writes"] = lambda: (
            max(writer.pending().values(), default=NOTHING, key=_age).age <= WRITE_LIMIT
        )
    return checks


class _Review(msgspec.Struct):
    status: dict[str, Any] = {}


_REVIEW = msgspec.json.Decoder(_Review)
_ANONYMOUS = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
FRESH = 10.0
"""Seconds for which who may, may without a new review, and for which a server that fails is not asked again
(apiserver v0.36, pkg/server/options: NewDelegatingAuthenticationOptions, NewDelegatingAuthorizationOptions).
"""
KEPT, MOST = 3600.0, 1000
"""Seconds for which he may while the server cannot be asked; requests that are remembered."""


class DelegatedAuthorization:
    """Decides on requests to paths by TokenReview and SubjectAccessReview. Thread-safe.

    While the server fails, those may whom it has last allowed: what is served is needed then.

    Parameters
    ----------
    authentication, authorization : Connection or None
        Without the first every request is anonymous, without the second all are forbidden.
    clock : callable, optional
        Returns seconds.
    """

    def __init__(
        self,
        authentication: Connection | None,
        authorization: Connection | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authentication, self._authorization, self._clock = authentication, authorization, clock
        self._allowed: dict[tuple[bytes, str, str], float] = {}  # when; the longest ago is the first
        self._failed = -FRESH

    def status(self, path: str, verb: str, token: str) -> tuple[int, str]:
        """Decide on a request.

        Parameters
        ----------
        path : str
            Such as ``/metrics``.
        verb : str
            Such as ``get``.
        token : str
            Of the bearer; "" for none.

        Returns
        -------
        status : int
            200, 401, 403, or 500 where the server does not answer.
        text : str
            For others than 200.
        """
        key, now = (sha256(token.encode()).digest(), verb, path), self._clock()
        age = now - self._allowed.get(key, now - KEPT)
        if age < (KEPT if now - self._failed < FRESH else FRESH):
            return 200, ""
        try:
            status, text = self._reviewed(path, verb, token)
        except ApiError as error:
            self._failed = self._clock()
            return (200, "") if age < KEPT else (500, f"Internal Server Error: {path!r}: {error}")
        self._allowed.pop(key, None)
        if status == 200:
            self._allowed[key] = now
            for oldest in list(self._allowed)[:-MOST]:
                self._allowed.pop(oldest, None)
        return status, text

    def _reviewed(self, path: str, verb: str, token: str) -> tuple[int, str]:
        user: dict[str, Any] | None = _ANONYMOUS
        if token and self._authentication is not None:
            user = self._user(self._authentication, token)
            if user is None:
                return 401, "Unauthorized"
        if self._authorization is not None and self._may(self._authorization, user, path, verb):
            return 200, ""
        name = user["username"] if user else ""
        return 403, f'forbidden: User "{name}" cannot {verb} path "{path}"'

    def _user(self, connection: Connection, token: str) -> dict[str, Any] | None:
        """Return the user of a token; None for a token that is not valid."""
        status = _review(connection, "authentication.k8s.io", "TokenReview", {"token": token})
        user: dict[str, Any] = status.get("user", {})
        return user if status.get("authenticated") else None

    def _may(self, connection: Connection, user: dict[str, Any] | None, path: str, verb: str) -> bool:
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}}
        names = {"username": "user", "groups": "groups", "uid": "uid", "extra": "extra"}
        spec |= {theirs: user[ours] for ours, theirs in names.items() if user and ours in user}
        status = _review(connection, "authorization.k8s.io", "SubjectAccessReview", spec)
        return status.get("allowed") is True


def _review(connection: Connection, group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Create a review, and return its status."""
    value = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
    path = f"/apis/{group}/v1/{kind.lower()}s"
    answer = connection.request("POST", path, None, msgspec.json.encode(value))
    return read_answer(_REVIEW, answer).status


class SecureServer(WebServer):
    """Serves the state of a scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
    authorization : DelegatedAuthorization
        Decides who may read metrics.
    metrics, ready, alive
        See `WebServer`.
    """

    knows_clients = True

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        certificate: str,
        key: str,
        authorization: DelegatedAuthorization,
        metrics: Callable[[], bytes],
        ready: Mapping[str, Check],
        alive: Mapping[str, Check] | None = None,
    ) -> None:
        self.authorization = authorization
        self.metrics, self.ready, self.alive = metrics, ready, alive or {}
        super().__init__(address, server_context(certificate, key))

    async def refusal(self, request: HttpRequest) -> Reply | None:
        if request.method in ("GET", "HEAD"):
            return None
        return Reply(
            405, b"health checks and metrics are requested by GET\n", headers=[("allow", "GET, HEAD")]
        )

    def answer(self, request: HttpRequest) -> Reply:
        status, text = 200, ""
        if request.path not in HEALTH:
            status, text = self.authorization.status(request.path, "get", request.bearer)
        if status != 200:
            return Reply(status, text.encode())
        return self.state(request) if request.asks_state else Reply(404, b"404 page not found\n")
