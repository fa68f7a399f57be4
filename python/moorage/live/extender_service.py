"""A scheduler extender: its verbs, answered by a profile, over HTTP or mutual TLS."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import group_by_verdict
from moorage.answers.scheduler import Scheduler
from moorage.cluster.examine import score_rows
from moorage.engine.extenders import extender_wire as wire
from moorage.engine.framework import CycleState, PreFilterRun, Status
from moorage.engine.framework.extension_points import StatusError
from moorage.engine.framework.interface import Code
from moorage.engine.preemption.dry_run import DryRunAttempt
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.cycle.extended_search import MAX_EXTENDER_PRIORITY
from moorage.errors import InputError, MoorageError
from moorage.kube import Pod
from moorage.kube.apiserver.decode import UNREADABLE, decode_kind
from moorage.store import ApiError
from moorage.store.pod_binding import why_unreadable

from .http_common import JSON
from .web_server import TEXT, Check, HttpRequest, Reply, WebServer, server_context

if TYPE_CHECKING:
    from .client.reflector import ReceivedCounts


CATCH_UP = 1.0
"""Seconds at most that a filter waits for news which kube-scheduler has had already: less than an extender
has to answer (5 by default)."""
UNKNOWN = "node is not known to the extender"
NOT_SEARCHED = "node is not among those that PreFilter plugins of the extender allow"
_UNKNOWN, _NOT_SEARCHED = 2**64 - 1, 2**64 - 2
"""In place of verdicts, for nodes without one."""


class RequestError(MoorageError):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        Of HTTP, for verbs whose answer has no field for an error.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ExtenderService:
    """Answers the requests of kube-scheduler from the state of a scheduler.

    The profile is that of the pod's schedulerName, else the first one. Pods that kube-scheduler has placed
    count once they are bound and the scheduler has seen it.

    Parameters
    ----------
    scheduler : Scheduler
        Its pods are not scheduled here. It must not be used elsewhere meanwhile.
    arrivals : ReceivedCounts, optional
        Of the scheduler's client, where news of the cluster take time to come.
    clock : callable, optional
        Seconds.

    Attributes
    ----------
    verbs : dict of str to callable
        filter, prioritize, preempt and bind: each takes the body of a request and returns that of the answer.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        arrivals: ReceivedCounts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler = scheduler
        self._arrivals, self._clock = arrivals, clock
        self.verbs: dict[str, Callable[[bytes], bytes]] = {
            "filter": self.filter,
            "prioritize": self.prioritize,
            "preempt": self.preempt,
            "bind": self.bind,
        }

    def answer(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Answer one request, after what has happened in the cluster was taken in.

        Returns
        -------
        status : int
            200 where the answer has a field for an error (filter and bind): kube-scheduler shows the text of
            that field, and nothing of the body of another status.
        """
        try:
            if verb not in self.verbs:
                raise RequestError(404, f"unknown verb {verb!r}: there are {', '.join(self.verbs)}")
            if verb == "filter":
                return 200, self.filter(body)
            with self.scheduler.cache.lock:
                self.follow()
                return 200, self.verbs[verb](body)
        except RequestError as error:
            status, text = error.status, str(error)
        except (StatusError, MoorageError) as error:
            status = 500
            text = error.status.message() if isinstance(error, StatusError) else str(error)
        if verb in ("filter", "bind"):
            return 200, msgspec.json.encode({"Error": text})
        return status, f"{text}\n".encode()

    def follow(self) -> None:
        """Take in what has happened in the cluster.

        Call it now and then where requests may be long in coming: what happens meanwhile takes memory.

        Raises
        ------
        ApiError
            The server has refused or is away; the next call goes on.
        """
        with self.scheduler.cache.lock:
            self.scheduler.context.drop_unused_classes()
            self.scheduler.sync()

    def filter(self, body: bytes) -> bytes:
        """Answer with the nodes on which the pod fits, and why it does not fit on the others.

        kube-scheduler asks for the node that a pod is nominated to once it has seen that the victims there
        are gone. The extender may not have seen it yet. Then it waits a moment for the news: if it refused
        that node, kube-scheduler would evict more pods elsewhere.

        Returns
        -------
        bytes
            ExtenderFilterResult.
        """
        args = _decoded(_ARGS, body)
        names, pod = _names(args), self._pod(args.pod)
        until = self._clock() + CATCH_UP
        while True:
            seen = 0 if self._arrivals is None else self._arrivals.count
            with self.scheduler.cache.lock:
                self.follow()
                result, may_be_behind = self._filter(args, names, pod)
            left = until - self._clock()
            if not may_be_behind or self._arrivals is None or left <= 0.0:
                return result
            self._arrivals.wait(seen, left)

    def _filter(self, args: wire.ExtenderArgs, names: list[str], pod: Pod) -> tuple[bytes, bool]:
        """Answer as the cluster is known now; also return whether the node that the pod is nominated to is
        refused for a reason that ends with the pods there."""
        engine, state, ran = self._begin(pod)
        places = engine.cache.state.view.rows_of(names)
        if ran.rejection is not None:
            unknown = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (UNKNOWN,))
            verdicts = np.where(places >= 0, np.uint64(_NOT_SEARCHED), np.uint64(_UNKNOWN))
            rejected = {_NOT_SEARCHED: ran.rejection, _UNKNOWN: unknown}
            return _filtered(args, names, verdicts, rejected.__getitem__), False
        rows, searched, statuses = engine.verdicts(state.target)
        by_row = np.full(engine.cache.state.table.used + 1, _NOT_SEARCHED, dtype=np.uint64)
        by_row[-1] = _UNKNOWN
        by_row[rows] = searched
        verdicts = by_row[places]

        def reason(verdict: int) -> Status:
            if verdict in (_UNKNOWN, _NOT_SEARCHED):
                text = UNKNOWN if verdict == _UNKNOWN else NOT_SEARCHED
                return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
            return engine.framework.profile_of(state.target).rejection(verdict, state.shape, statuses)

        nominated = pod.status.nominated_node_name
        verdict = int(verdicts[names.index(nominated)]) if nominated in names else 0
        may_end = verdict != 0 and reason(verdict).code == Code.UNSCHEDULABLE
        return _filtered(args, names, verdicts, reason), may_end

    def prioritize(self, body: bytes) -> bytes:
        """Answer with scores from 0 to 10: the best nodes have 10, and the others their place between the
        lowest and the highest total, rounded down. Unknown nodes have 0.

        Returns
        -------
        bytes
            HostPriorityList.
        """
        args = _decoded(_ARGS, body)
        names = _names(args)
        engine, state, ran = self._begin(self._pod(args.pod))
        scores = np.zeros(len(names), dtype=np.int64)
        if ran.rejection is None:
            rows = engine.cache.state.view.rows_of(names)
            known = rows >= 0
            if known.any():
                totals = score_rows(engine, state, rows[known])[2]
                low, high = int(totals.min()), int(totals.max())
                scores[known] = MAX_EXTENDER_PRIORITY
                if high > low:
                    scores[known] = (totals - low) * MAX_EXTENDER_PRIORITY // (high - low)
        return msgspec.json.encode(list(map(_HostPriority, names, scores.tolist())))

    def preempt(self, body: bytes) -> bytes:
        """Answer with the candidates on which the pod fits once their victims are gone. Victims are not
        changed, and nothing is evicted.

        Returns
        -------
        bytes
            ExtenderPreemptionResult.
        """
        args = _decoded(_PREEMPTION_ARGS, body)
        offered = _victims(args)
        pod, left = self._pod(args.pod), dict[str, Any]()
        engine, state, ran = self._begin(pod)
        for node, (uids, violated) in offered.items() if ran.rejection is None else ():
            info = engine.cache.node_info(node)
            is_allowed = ran.node_names is None or node in ran.node_names
            if info is None or info.node is None or not is_allowed:
                continue
            attempt = DryRunAttempt(engine.handle, state.clone(), pod, info.clone())
            here = {placed.metadata.uid: placed for placed in info.pods}
            failed = [attempt.change_pod(here[uid], adds=False) for uid in uids if uid in here]
            if any(failed) or attempt.rejection() is not None:
                continue
            left[node] = {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violated}
        return msgspec.json.encode({"NodeNameToMetaVictims": left})

    def bind(self, body: bytes) -> bytes:
        """Bind a pod by the Bind plugins of the profile.

        Returns
        -------
        bytes
            ExtenderBindingResult.
        """
        args = _decoded(_BINDING_ARGS, body)
        for field, value in (("PodName", args.pod_name), ("Node", args.node)):
            if not value:
                raise RequestError(400, f"ExtenderBindingArgs: {field} is empty")
        scheduler = self.scheduler
        info = scheduler.cache.node_info(args.node)
        if info is None or info.node is None:
            raise RequestError(400, f'node "{args.node}" is not known to the extender')
        try:
            pod = scheduler.client.get(Pod, args.pod_name, args.pod_namespace)
            if args.pod_uid and pod.metadata.uid != args.pod_uid:
                raise RequestError(
                    409, f"pod {pod.key} has the UID {pod.metadata.uid}, not {args.pod_uid} as asked"
                )
            engine = scheduler.context.engine_for(pod)
            status = engine.framework.run_bind_plugins(engine.framework.new_state(pod), pod, args.node)
        except ApiError as error:
            raise RequestError(409, str(error)) from None
        if status is not None and not status.is_success:
            raise RequestError(409, status.message())
        scheduler.sync()
        return b'{"Error":""}'

    def _pod(self, raw: msgspec.Raw) -> Pod:
        if bytes(raw) == b"null":
            raise RequestError(400, "the request has no Pod")
        try:
            pod = decode_kind(raw, "Pod")
        except (InputError, *UNREADABLE) as error:
            raise RequestError(400, f"Pod: {error}") from None
        assert isinstance(pod, Pod)
        if why := why_unreadable(pod):
            raise RequestError(400, f"Pod: {why}")
        return pod

    def _begin(self, pod: Pod) -> tuple[Engine, CycleState, PreFilterRun]:
        """Begin the cycle of a pod, up to the search."""
        engine = self.scheduler.context.engine_for(pod)
        state = engine.framework.new_state(pod)
        engine.begin_cycle(state.target)
        engine.cache.state.view.refresh()
        ran = engine.framework.run_pre_filter_plugins(state, pod)
        if ran.error:
            raise RequestError(500, ran.error)
        if ran.rejection is None:
            engine.begin_search(state, pod, ran)
        return engine, state, ran


class _HostPriority(msgspec.Struct, rename="pascal", gc=False):
    host: str
    score: int


class _NodeMeta(msgspec.Struct):
    name: str = ""


class _NodeHead(msgspec.Struct):
    metadata: _NodeMeta


_ARGS = msgspec.json.Decoder(wire.ExtenderArgs)
_BINDING_ARGS = msgspec.json.Decoder(wire.ExtenderBindingArgs)
_PREEMPTION_ARGS = msgspec.json.Decoder(wire.ExtenderPreemptionArgs)
_NODE = msgspec.json.Decoder(_NodeHead)


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise RequestError(400, f"the request is not valid {decoder.type.__name__}: {error}") from None


def _names(args: wire.ExtenderArgs) -> list[str]:
    """Return the names of the candidate nodes."""
    if args.node_names is not None:
        return args.node_names
    if args.nodes is None:
        raise RequestError(400, "the request has neither NodeNames nor Nodes")
    try:
        return [_NODE.decode(raw).metadata.name for raw in args.nodes.items or ()]
    except UNREADABLE as error:
        raise RequestError(400, f"Nodes: {error}") from None


def _filtered(
    args: wire.ExtenderArgs,
    names: list[str],
    verdicts: npt.NDArray[np.uint64],
    reason: Callable[[int], Status],
) -> bytes:
    """Return the answer, with names or with the nodes as they were sent. A verdict of 0 is that of a node
    that passes."""
    lost = group_by_verdict(verdicts, names)
    passed = lost.pop(0, [])
    nodes: dict[str, Any] | None = None
    if args.nodes is not None and args.node_names is None:
        items = list(compress(args.nodes.items or (), (verdicts == 0).tolist()))
        nodes = {"metadata": {}, "items": items}
    failed, unresolvable = dict[str, str](), dict[str, str]()
    for verdict, rejected in lost.items():
        status = reason(verdict)
        is_final = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        (unresolvable if is_final else failed).update(dict.fromkeys(rejected, status.message()))
    return msgspec.json.encode(
        {
            "Nodes": nodes,
            "NodeNames": passed if nodes is None else None,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unresolvable,
            "Error": "",
        }
    )


def _victims(args: wire.ExtenderPreemptionArgs) -> dict[str, tuple[list[str], int]]:
    """Return the UIDs of the victims of each candidate, and the number of violated budgets."""
    if args.node_name_to_meta_victims is not None:
        return {
            node: ([pod.uid for pod in victims.pods or ()], victims.num_pdb_violations)
            for node, victims in args.node_name_to_meta_victims.items()
        }
    if args.node_name_to_victims is None:
        raise RequestError(400, "the request has neither NodeNameToMetaVictims nor NodeNameToVictims")
    return {
        node: ([str(pod.metadata.get("uid", "")) for pod in victims.pods or ()], victims.num_pdb_violations)
        for node, victims in args.node_name_to_victims.items()
    }


logger = logging.getLogger("moorage.serve")

MAX_BODY = 128 << 20
"""Bytes of a body at most: enough for thousands of whole nodes."""
REQUEST_TIMEOUT = 30.0
"""Seconds for the head of a request to arrive, and for its body."""
IDLE_TIMEOUT = 120.0
"""Seconds that a connection is kept between two requests: longer than Go's client keeps it, so that no
request meets a connection that is being closed."""
Answer = Callable[[str, bytes], tuple[int, bytes]]


class ExtenderServer(WebServer):
    """Answers the requests of kube-scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
    answer : callable
        Takes a verb and the body of a request, returns status and body of the answer. It is called by several
        threads at once.
    certificate, key : str, optional
        Files in PEM; without them it is plain HTTP.
    client_authorities : str, optional
        A file of certificates in PEM. Only clients with a certificate by one of them are served, but for
        health checks.
    prefix : str, optional
        The path of ``urlPrefix``, before the verbs.
    max_body : int, optional
        Bytes of a body at most.
    timeout : float, optional
        Seconds for the head of a request to arrive, and for its body.
    health, ready, metrics : optional
        See `WebServer`, whose `alive` is `health`. They need no certificate.

    Raises
    ------
    OSError
        A file cannot be read, or the address cannot be used.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        answer: Answer,
        *,
        certificate: str | None = None,
        key: str | None = None,
        client_authorities: str | None = None,
        prefix: str = "",
        max_body: int = MAX_BODY,
        timeout: float = REQUEST_TIMEOUT,
        health: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        metrics: Callable[[], bytes] | None = None,
    ) -> None:
        context = None
        if certificate is not None and key is not None:
            context = server_context(certificate, key, client_authorities)
        self._answer = answer
        self.prefix = f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"
        self.ready, self.alive, self.metrics = ready or {}, health or {}, metrics or bytes
        self.knows_clients = client_authorities is not None
        super().__init__(address, context, max_body=max_body, patience=timeout, idle=IDLE_TIMEOUT)

    async def refusal(self, request: HttpRequest) -> Reply | None:
        if request.asks_state:
            return None
        if self.knows_clients and not request.has_certificate:
            return Reply(403, b"a client certificate is needed\n")
        if request.method != "POST":
            text = f"method {request.method}: verbs of extenders are requested by POST\n"
            return Reply(405, text.encode(), headers=[("allow", "POST")])
        if not request.path.startswith(self.prefix):
            return Reply(404, f"no such path: the verbs are below {self.prefix}\n".encode())
        return None

    def answer(self, request: HttpRequest) -> Reply:
        if request.asks_state:
            return self.state(request)
        try:
            status, body = self._answer(request.path.removeprefix(self.prefix), request.body)
        except Exception:
            logger.exception("%s was not answered", request.path)
            status, body = 500, b"internal error\n"
        return Reply(status, body, JSON if status == 200 else TEXT)
