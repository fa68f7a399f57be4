"""HTTPExtender: an extender called over HTTP (kube-scheduler v1.36, extender.go), and its connections."""

from __future__ import annotations

import base64
import http.client
import io
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec
from msgspec import Raw

from moorage.engine.extenders import extender_wire as wire
from moorage.errors import ExtenderError, printable
from moorage.kube import Node, Pod, encode_object

from ..cache import NodeInfo
from ..framework.configuration import Extender as ExtenderConfig
from ..framework.configuration import KubeSchedulerConfiguration, build_extenders
from ..framework.configuration.extender_tls import tls_context
from ..framework.handle import Victims

# ---- extender transport ------------------------------------------------------------------------------------
# HTTP/1.1 transport of extenders: a persistent connection, with one timeout per request.
#
# Errors have the texts of Go's net/http. Redirects are not followed, and no proxies are used.

PORTS = {"http": 80, "https": 443}
AWAITING = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
READING = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
IN_PATHS = "/?%:@!$&'()*+,;=~"


class DeadlineSocket:
    """A socket with one deadline for all operations, in the form that `http.client.HTTPResponse` reads.

    Attributes
    ----------
    deadline : float
        Seconds of `time.monotonic`; an operation after it raises TimeoutError.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.deadline = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no input has arrived since the last response, not even the end of the connection."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def _set_timeout(self) -> None:
        """Set the socket's timeout to the time left."""
        self.sock.settimeout(seconds_until(self.deadline))

    def sendall(self, data: bytes) -> None:
        """Send all bytes before the deadline."""
        rest = memoryview(data)
        while rest:
            self._set_timeout()
            rest = rest[self.sock.send(rest) :]

    def recv_into(self, buffer: Any) -> int:
        """Receive bytes into a buffer.

        Returns
        -------
        int
            Number of bytes; 0 at the end of the stream.
        """
        self._set_timeout()
        return self.sock.recv_into(buffer)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the input as a buffered stream.

        Parameters
        ----------
        mode : str
            Unused: reading is the only mode.
        """
        return io.BufferedReader(_Received(self))


class _Received(io.RawIOBase):
    """The input of a connection as a raw stream."""

    def __init__(self, connection: DeadlineSocket) -> None:
        self.connection = connection

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive bytes into a buffer; return their number."""
        return self.connection.recv_into(buffer)


def seconds_until(deadline: float) -> float:
    """Return the seconds left until a deadline.

    Parameters
    ----------
    deadline : float
        Seconds of `time.monotonic`.

    Raises
    ------
    TimeoutError
        The deadline has passed.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Transport:
    """Posts requests to one server, one at a time.

    Parameters
    ----------
    prefix : str
        The URL up to the verb; user and password in it are for basic authentication.
    server_name : str
        The name that the server's certificate must have; "" for the URL's.
    timeout : float
        Seconds for a whole request, from connecting to the last byte of the response; a lookup of the host
        name is not interrupted.
    """

    def __init__(self, prefix: str, tls: ssl.SSLContext, server_name: str, timeout: float) -> None:
        self.connection: DeadlineSocket | None = None
        self._closing: weakref.finalize[..., Transport] | None = None
        self.prefix = prefix.rstrip("/")
        self.tls = tls
        self.server_name = server_name
        self.timeout = timeout
        self.lock = threading.Lock()

    def post(self, verb: str, body: bytes, limit: int) -> bytes:
        """Post a request.

        Parameters
        ----------
        limit : int
            Maximum size of the response in bytes.

        Returns
        -------
        bytes
            The body of the response.

        Raises
        ------
        ExtenderError
            No response, another status than 200, or a response beyond the limit.
        """
        url = f"{self.prefix}/{verb}"
        with self.lock:
            try:
                status, answer = self._post(url, body, limit)
            except BaseException as error:
                self.close()
                if isinstance(error, OSError | http.client.HTTPException):
                    raise ExtenderError(_failed(url, _go_text(error))) from error
                raise
        if status != http.HTTPStatus.OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._closing is not None:
            self._closing()
        self.connection = self._closing = None

    def _post(self, url: str, body: bytes, limit: int) -> tuple[int, bytes]:
        """Send a request; return the status code and the body."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").encode("ascii").decode(), parts.port
        except ValueError as error:
            raise ExtenderError(f'parse "{url}": {error}') from error
        if parts.scheme not in PORTS:
            raise ExtenderError(_failed(url, f'unsupported protocol scheme "{parts.scheme}"'))
        if not host:
            raise ExtenderError(_failed(url, "http: no Host in request URL"))
        deadline = time.monotonic() + self.timeout
        connection = self._connect(url, parts.scheme, (host, port or PORTS[parts.scheme]), deadline)
        connection.deadline = deadline
        connection.sendall(_head(parts, len(body)) + body)
        response = http.client.HTTPResponse(connection, method="POST")  # type: ignore[arg-type]
        response.begin()
        answer = _read(response, limit + 1) if response.status == http.HTTPStatus.OK else b""
        if len(answer) > limit:
            raise ExtenderError(f"the answer of {url} has more than {limit} bytes")
        if response.will_close or not response.isclosed():
            self.close()
        return response.status, answer

    def _connect(self, url: str, scheme: str, address: tuple[str, int], deadline: float) -> DeadlineSocket:
        """Open a connection before the deadline."""
        if self.connection is not None and self.connection.is_idle:
            return self.connection
        self.close()
        host, port = address
        if scheme == "https" and not _is_server_name(self.server_name or host):
            raise ExtenderError(_failed(url, f'tls: not a server name: "{self.server_name or host}"'))
        try:
            sock = socket.create_connection(address, seconds_until(deadline))
        except (socket.gaierror, UnicodeError):  # a label of more than 63 characters
            raise ExtenderError(_failed(url, f"dial tcp: lookup {host}: no such host")) from None
        except TimeoutError:
            raise
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            raise ExtenderError(_failed(url, f"dial tcp {host}:{port}: connect: {why}")) from error
        self.connection = DeadlineSocket(sock)
        self._closing = weakref.finalize(self, self.connection.close)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if scheme == "https":
            sock.settimeout(seconds_until(deadline))
            self.connection.sock = self.tls.wrap_socket(sock, server_hostname=self.server_name or host)
        return self.connection


def _is_server_name(name: str) -> bool:
    """Whether OpenSSL accepts a server name; Go omits invalid ones from the handshake."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return "\0" not in name and not name.startswith(".")


def _read(response: http.client.HTTPResponse, limit: int) -> bytes:
    """Read a body of at most `limit` bytes."""
    try:
        return response.read(limit)
    except TimeoutError:
        raise ExtenderError(READING) from None
    except http.client.IncompleteRead:
        raise ExtenderError("unexpected EOF") from None
    except ValueError:  # a chunk of negative length
        raise ExtenderError("invalid byte in chunk length") from None


def _head(parts: SplitResult, length: int) -> bytes:
    """Return the request line and the headers of a POST."""
    host = parts.netloc.rpartition("@")[2]
    query = f"?{parts.query}" if parts.query else ""
    target = quote(f"{parts.path}{query}", safe=IN_PATHS)
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: moorage",
        f"Content-Length: {length}",
        "Content-Type: application/json",
    ]
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        lines.append(f"Authorization: Basic {base64.b64encode(pair).decode()}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def _failed(url: str, why: str) -> str:
    """Return the error text for a URL, without its password."""
    password = urlsplit(url).password
    shown = url.replace(f":{password}@", ":***@", 1) if password else url
    return f'Post "{shown}": {why}'


def _go_text(error: BaseException) -> str:
    """Return the text that Go's net/http has for an error."""
    match error:
        case TimeoutError():
            return AWAITING
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: {error.verify_message}"
        case ssl.SSLError():
            return f"tls: {error.reason or error}"
        case http.client.RemoteDisconnected():
            return "EOF"
        case OSError():
            return os.strerror(error.errno).lower() if error.errno else str(error)
    return f"net/http: HTTP/1.x transport connection broken: {error}"


# ---- http extender -----------------------------------------------------------------------------------------

# Maximum bytes of a response: a constant, an amount per node sent, and twice the size of the request, since
# an extender may return the nodes. For 130,000 nodes with names of usual length the sum is 140 MB.
MAX_RESPONSE = 1 << 20
"""The constant part of the maximum size of a response, in bytes."""
MAX_RESPONSE_PER_NODE = 1 << 10
NANOSECONDS = 1_000_000_000


class HTTPExtender:
    """An extender of a configuration, with a persistent connection and one request at a time.

    Parameters
    ----------
    config : Extender
        From `build_extenders`.
    node_info : callable
        Returns the node of a name with its pods, or None. Victims are found there by UID.

    Raises
    ------
    ExtenderError
        A certificate cannot be read.
    """

    def __init__(self, config: ExtenderConfig, node_info: Callable[[str], NodeInfo | None]) -> None:
        self.config = config
        self.node_info = node_info
        self.name = config.url_prefix
        self.weight = config.weight
        self.is_ignorable = config.ignorable
        self.is_filter = bool(config.filter_verb)
        self.returns_bare_nodes = self.is_filter and not config.node_cache_capable
        self.is_prioritizer = bool(config.prioritize_verb)
        self.is_binder = bool(config.bind_verb)
        self.supports_preemption = bool(config.preempt_verb)
        self.managed = {resource.name for resource in config.managed_resources or ()}
        server_name = config.tls_config.server_name if config.tls_config else ""
        timeout = config.http_timeout / NANOSECONDS
        self.transport = Transport(config.url_prefix, tls_context(config), server_name, timeout)
        self._encoded: dict[str, tuple[Node, Raw]] = {}

    def is_interested(self, pod: Pod) -> bool:
        """Whether a container requests or limits a resource that the extender manages; always true if it
        manages none.
        """
        each = [container.resources for container in (*pod.spec.containers, *pod.spec.init_containers)]
        names = {name for resources in each for name in (*resources.requests, *resources.limits)}
        return not self.managed or not self.managed.isdisjoint(names)

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Filter nodes; see `Extender.filter`.

        A name that is not among `nodes` is an error. Upstream accepts unknown nodes that the extender returns
        as objects.

        Returns
        -------
        names : list of str
            The accepted nodes.
        failed : dict of str to str
            Rejected node to the reason.
        unresolvable : dict of str to str
            Node where eviction cannot help, to the reason.

        Raises
        ------
        ExtenderError
            The request failed, or the response is invalid.
        """
        names = [node.name for node in nodes]
        if not self.is_filter:
            return names, {}, {}
        result: wire.ExtenderFilterResult = self._ask(
            self.config.filter_verb, self._args(pod, nodes), wire.FILTER_RESULT, len(nodes)
        )
        if result.error:
            raise ExtenderError(result.error)
        passed: list[str] = []
        if self.config.node_cache_capable and result.node_names is not None:
            passed = result.node_names
        elif result.nodes is not None:
            passed = [node.metadata.name for node in result.nodes.items or ()]
        known = set(names)
        for name in passed:
            if name not in known:
                claim = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.name}" {claim}')
        return passed, _reasons(result.failed_nodes), _reasons(result.failed_and_unresolvable_nodes)

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Score nodes; see `Extender.prioritize`. Scores of repeated nodes are added.

        Raises
        ------
        ExtenderError
            The request failed, or the response is invalid.
        """
        if not self.is_prioritizer:
            return dict.fromkeys((node.name for node in nodes), 0)
        priorities: list[wire.HostPriority] | None = self._ask(
            self.config.prioritize_verb, self._args(pod, nodes), wire.HOST_PRIORITIES, len(nodes)
        )
        scores: dict[str, int] = {}
        for priority in priorities or ():
            scores[priority.host] = scores.get(priority.host, 0) + priority.score
        return scores

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to a node; see `Extender.bind`.

        Raises
        ------
        ExtenderError
            The request failed, or the extender has no bind verb.
        """
        if not self.is_binder:
            raise ExtenderError("unexpected empty bindVerb in extender")
        meta = pod.metadata
        args = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        result: wire.ExtenderBindingResult = self._ask(self.config.bind_verb, args, wire.BINDING_RESULT)
        if result.error:
            raise ExtenderError(result.error)

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Let the extender remove candidate nodes and change victims; see `Extender.process_preemption`.

        Raises
        ------
        ExtenderError
            The request failed, or the response names an unknown node or pod.
        """
        if not self.supports_preemption:
            raise ExtenderError(
                f"preempt verb is not defined for extender {self.name} but run into ProcessPreemption"
            )
        by_uid = self.config.node_cache_capable
        offered = {
            node: {
                "Pods": [
                    {"UID": victim.metadata.uid} if by_uid else _raw(victim) for victim in victims[node].pods
                ],
                "NumPDBViolations": victims[node].num_pdb_violations,
            }
            for node in sorted(victims)
        }
        args = {
            "Pod": _raw(pod),
            "NodeNameToVictims": None if by_uid else offered,
            "NodeNameToMetaVictims": offered if by_uid else None,
        }
        result: wire.ExtenderPreemptionResult = self._ask(
            self.config.preempt_verb, args, wire.PREEMPTION_RESULT
        )
        left = result.node_name_to_meta_victims or {}
        return {
            node: self._victims(node, left[node], victims.get(node, Victims(()))) for node in sorted(left)
        }

    def _victims(self, node: str, meta: wire.MetaVictims, offered: Victims) -> Victims:
        """Return the victims on a node from a response that has their UIDs."""
        info = self.node_info(node)
        if info is None or info.node is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node}"')
        # The victims of a group that is evicted as a whole include pods on other nodes.
        pods = {pod.metadata.uid: pod for pod in (*info.pods, *offered.pods)} if meta.pods else {}
        for meta_pod in meta.pods or ():
            if meta_pod.uid not in pods:
                claim = f"claims to preempt pod (UID: &{{{meta_pod.uid}}}) on node: {node}"
                raise ExtenderError(f"extender: {self.name} {claim}, but the pod is not found on that node")
        return Victims(tuple(pods[meta_pod.uid] for meta_pod in meta.pods or ()), meta.num_pdb_violations)

    def _args(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, Any]:
        """Return the message ExtenderArgs: the pod, and its candidate nodes as names or objects."""
        if self.config.node_cache_capable:
            return {"Pod": _raw(pod), "Nodes": None, "NodeNames": [node.name for node in nodes]}
        items = [self._encode(node) for node in nodes]
        return {"Pod": _raw(pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    def _encode(self, node: Node) -> Raw:
        """Return the JSON text of a node, cached while the node is unchanged."""
        known, text = self._encoded.get(node.name, (None, None))
        if text is None or known is not node:
            text = _raw(node)
            self._encoded[node.name] = node, text
        return text

    def _ask(self, verb: str, args: dict[str, Any], answer: wire.Answer, nodes: int = 0) -> Any:
        """Post a message about a number of nodes; return the decoded response."""
        message = msgspec.json.encode(args)
        limit = MAX_RESPONSE + nodes * MAX_RESPONSE_PER_NODE + 2 * len(message)
        return wire.decode(self.transport.post(verb, message, limit), answer)


def _reasons(by_node: dict[str, str] | None) -> dict[str, str]:
    """Return reasons with control characters escaped."""
    return {node: printable(reason) for node, reason in (by_node or {}).items()}


def _raw(obj: Node | Pod) -> Raw:
    """Return the JSON text of an object."""
    return Raw(encode_object(obj))


def make_extenders(
    configuration: KubeSchedulerConfiguration | None, node_info: Callable[[str], NodeInfo | None]
) -> list[HTTPExtender]:
    """Make the extenders of a configuration, ignorable ones last (kube-scheduler v1.36, scheduler.go
    buildExtenders).

    Parameters
    ----------
    node_info : callable
        As in `HTTPExtender`.

    Raises
    ------
    ConfigurationError
        Of stage new: a certificate cannot be read.
    """
    configs = [] if configuration is None else build_extenders(configuration)
    return [HTTPExtender(config, node_info) for config in sorted(configs, key=attrgetter("ignorable"))]
