"""What tests need of the inside of live."""

# Documented names one level below the room's own, and modules that are looked into.
from moorage.live.client import ApiClient as ApiClient
from moorage.live.client import Connection as Connection
from moorage.live.client import connect as connect
from moorage.live.client import kubeconfig as kubeconfig
from moorage.live.client import wire_format as wire_format

# Kinds that are listed, which rights have to allow.
from moorage.live.client.cluster_objects import kinds_of_clusters as kinds_of_clusters
from moorage.live.client.cluster_objects import list_cluster as list_cluster
from moorage.live.client.connection import STREAM_TIMEOUT as STREAM_TIMEOUT

# Timeouts, methods, and what credentials come to.
from moorage.live.client.connection import Method as Method
from moorage.live.client.credentials import tls_context as tls_context
from moorage.live.client.http_sessions import KEPT as KEPT
from moorage.live.client.http_sessions import READ_TIMEOUT as READ_TIMEOUT

# Sessions that are closed or fail, and how long they are kept.
from moorage.live.client.http_sessions import HttpSessions as HttpSessions
from moorage.live.client.http_sessions import Session as Session

# A kubeconfig as values.
from moorage.live.client.kubeconfig_file import Cluster as Cluster
from moorage.live.client.kubeconfig_file import User as User
from moorage.live.client.kubeconfig_file import read_kubeconfig as read_kubeconfig

# Limits by a clock that a test moves; watches that are cut, and begun again.
from moorage.live.client.rate_limit import RateLimit as RateLimit
from moorage.live.client.reflector import MAX_TIMEOUT as MAX_TIMEOUT
from moorage.live.client.reflector import Arrivals as Arrivals
from moorage.live.client.reflector import Backoff as Backoff
from moorage.live.client.reflector import Reflector as Reflector

# Errors that are made of any answer.
from moorage.live.client.server_errors import error_of as error_of
from moorage.live.client.server_errors import status_of as status_of

# The queue is shortened, and tries follow one another at once.
from moorage.live.serve import event_broadcaster as event_broadcaster

# Elections by a clock that a test moves, and the error of one that is lost.
from moorage.live.serve.election import Election as Election
from moorage.live.serve.election import LostLeaseError as LostLeaseError

# Limits that tests have to pass, and checks by a clock that a test moves.
from moorage.live.serve.event_broadcaster import MAX_TRIES as MAX_TRIES
from moorage.live.serve.health import LEASE_TOLERANCE as LEASE_TOLERANCE
from moorage.live.serve.health import REFUSED_LIMIT as REFUSED_LIMIT
from moorage.live.serve.health import UNREADABLE_LIMIT as UNREADABLE_LIMIT
from moorage.live.serve.health import WATCH_LIMIT as WATCH_LIMIT
from moorage.live.serve.health import liveness_checks as liveness_checks
from moorage.live.serve.http_connection import HEAD as HEAD

# How long an end may take, which deploy/ has to give.
from moorage.live.serve.live_scheduler import END as END

# How connections are shared out.
from moorage.live.serve.shares import Shares as Shares

# Servers without a scheduler, and paths that deploy/ has to know.
from moorage.live.serve.web_server import HEALTH as HEALTH
from moorage.live.serve.web_server import WebServer as WebServer

# How many threads write.
from moorage.live.serve.writer import THREADS as THREADS

# The parts of a twin: child processes and their limits, predictions, a server whose answers are made up.
from moorage.live.twin import FollowedCluster as FollowedCluster
from moorage.live.twin import Forks as Forks
from moorage.live.twin import Limits as Limits
from moorage.live.twin import Output as Output
from moorage.live.twin import PredictedBindings as PredictedBindings
from moorage.live.twin import Reply as Reply
from moorage.live.twin import Template as Template
from moorage.live.twin import TwinRefusalError as TwinRefusalError
from moorage.live.twin import TwinServer as TwinServer
from moorage.live.twin.twin_server import QUESTIONS as QUESTIONS
from moorage.live.twin.twin_server import Answer as twin_server_Answer

# Two names of the room are the same.
__all__ = ["twin_server_Answer"]
