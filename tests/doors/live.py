"""What tests need of the inside of live."""

# What is queued, and when a write is tried again; lists and events in bytes.
from moorage.live import writer as writer

# Documented names one level below the room's own, and modules that are looked into.
# The queue is shortened, and tries follow one another at once.
from moorage.live.client import collection as collection
from moorage.live.client import kubeconfig as kubeconfig

# Kinds that are listed, which rights have to allow.
from moorage.live.client.cluster_objects import kinds_of_clusters as kinds_of_clusters
from moorage.live.client.cluster_objects import list_cluster as list_cluster

# Sessions that are closed or fail, and how long they are kept.
from moorage.live.client.connection import HttpSessions as HttpSessions

# Limits by a clock that a test moves; watches that are cut, and begun again.
from moorage.live.client.connection import RateLimit as RateLimit
from moorage.live.client.connection import Session as Session

# Errors that are made of any answer.
from moorage.live.client.connection import error_of as error_of
from moorage.live.client.connection import status_of as status_of

# A kubeconfig as values.
from moorage.live.client.kubeconfig import ClusterEntry as ClusterEntry
from moorage.live.client.kubeconfig import User as User
from moorage.live.client.kubeconfig import read_kubeconfig as read_kubeconfig
from moorage.live.client.kubeconfig import tls_context as tls_context
from moorage.live.client.reflector import Backoff as Backoff
from moorage.live.client.reflector import ReceivedCounts as ReceivedCounts
from moorage.live.client.reflector import Reflector as Reflector

# The verbs of an extender, and a server of them, without a command.
from moorage.live.extender_service import ExtenderServer as ExtenderServer
from moorage.live.extender_service import ExtenderService as ExtenderService

# The parts of a twin: child processes and their limits, predictions, a server whose answers are made up.
from moorage.live.followed_cluster import FollowedCluster as FollowedCluster
from moorage.live.followed_cluster import PredictedBindings as PredictedBindings
from moorage.live.health import DelegatedAuthorization as DelegatedAuthorization
from moorage.live.health import SecureServer as SecureServer
from moorage.live.health import liveness_checks as liveness_checks
from moorage.live.http_connection import HttpConnection as HttpConnection

# Elections by a clock that a test moves, and the error of one that is lost.
from moorage.live.leader_lease import Election as Election
from moorage.live.leader_lease import LeaderLease as LeaderLease
from moorage.live.leader_lease import LostLeaseError as LostLeaseError

# How long an end may take, which deploy/ has to give.
from moorage.live.live_scheduler import LiveScheduler as LiveScheduler

# How connections are shared out.
from moorage.live.shares import Limits as Limits
from moorage.live.shares import Shares as Shares
from moorage.live.twin_server import Forks as Forks
from moorage.live.twin_server import Output as Output
from moorage.live.twin_server import Template as Template
from moorage.live.twin_server import TwinRefusalError as TwinRefusalError
from moorage.live.twin_server import TwinServer as TwinServer

# Servers without a scheduler, and paths that deploy/ has to know.
from moorage.live.web_server import Reply as Reply

# How many threads write.
from moorage.live.writer import EventBroadcaster as EventBroadcaster
from moorage.live.writer import Writer as Writer
