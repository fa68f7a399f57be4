"""What tests need of the inside of live."""

# A twin without a server of its own.
from moorage.cli.twin.asked_twin import Answer as Answer
from moorage.cli.twin.asked_twin import AskedTwin as AskedTwin

# The server of tools, in this process.
from moorage.cli.twin.mcp_server import McpServer as McpServer
from moorage.cli.twin.mcp_server import mcp_server as mcp_server

# Files of the page, as a browser gets them.
from moorage.cli.twin.page_files import page_files as page_files

# Questions by themselves, of any parameters: each is a command or a refusal.
from moorage.cli.twin.questions import ASKED as ASKED
from moorage.cli.twin.questions import Question as Question
from moorage.cli.twin.questions import command_of as command_of
from moorage.cli.twin.questions import named_questions as named_questions
from moorage.cli.twin.questions import parameters_of as parameters_of
from moorage.cli.twin.questions import question_of as question_of

# A twin behind another server.
from moorage.cli.twin.remote_twin import RemoteTwin as RemoteTwin

# Standing questions that tests ask by hand; names of their metrics.
from moorage.cli.twin.standing_questions import GAUGES as GAUGES
from moorage.cli.twin.standing_questions import StandingAnswers as StandingAnswers
from moorage.cli.twin.standing_questions import read_questions as read_questions

# The queue is shortened, and tries follow one another at once.
from moorage.serve import event_broadcaster as event_broadcaster

# Elections by a clock that a test moves, and the error of one that is lost.
from moorage.serve.election import Election as Election
from moorage.serve.election import LostLeaseError as LostLeaseError

# Limits that tests have to pass, and checks by a clock that a test moves.
from moorage.serve.event_broadcaster import MAX_TRIES as MAX_TRIES
from moorage.serve.health import LEASE_TOLERANCE as LEASE_TOLERANCE
from moorage.serve.health import REFUSED_LIMIT as REFUSED_LIMIT
from moorage.serve.health import UNREADABLE_LIMIT as UNREADABLE_LIMIT
from moorage.serve.health import WATCH_LIMIT as WATCH_LIMIT
from moorage.serve.health import liveness_checks as liveness_checks
from moorage.serve.http_connection import HEAD as HEAD

# How long an end may take, which deploy/ has to give.
from moorage.serve.live_scheduler import END as END

# How connections are shared out.
from moorage.serve.shares import Shares as Shares

# The parts of a twin: child processes and their limits, predictions, a server whose answers are made up.
from moorage.serve.twin import FollowedCluster as FollowedCluster
from moorage.serve.twin import Forks as Forks
from moorage.serve.twin import Limits as Limits
from moorage.serve.twin import Output as Output
from moorage.serve.twin import PredictedBindings as PredictedBindings
from moorage.serve.twin import Reply as Reply
from moorage.serve.twin import Template as Template
from moorage.serve.twin import TwinRefusalError as TwinRefusalError
from moorage.serve.twin import TwinServer as TwinServer
from moorage.serve.twin.twin_server import QUESTIONS as QUESTIONS
from moorage.serve.twin.twin_server import Answer as twin_server_Answer

# Servers without a scheduler, and paths that deploy/ has to know.
from moorage.serve.web_server import HEALTH as HEALTH
from moorage.serve.web_server import WebServer as WebServer

# How many threads write.
from moorage.serve.writer import THREADS as THREADS

# Documented names one level below the room's own, and modules that are looked into.
from moorage.store.api import ApiClient as ApiClient
from moorage.store.api import Connection as Connection
from moorage.store.api import connect as connect
from moorage.store.api import kubeconfig as kubeconfig
from moorage.store.api import wire_format as wire_format

# Kinds that are listed, which rights have to allow.
from moorage.store.api.cluster_objects import kinds_of_clusters as kinds_of_clusters
from moorage.store.api.cluster_objects import list_cluster as list_cluster

# Timeouts, methods, and what credentials come to.
from moorage.store.api.connection import STREAM_TIMEOUT as STREAM_TIMEOUT
from moorage.store.api.connection import Method as Method
from moorage.store.api.credentials import tls_context as tls_context

# Sessions that are closed or fail, and how long they are kept.
from moorage.store.api.http_sessions import KEPT as KEPT
from moorage.store.api.http_sessions import READ_TIMEOUT as READ_TIMEOUT
from moorage.store.api.http_sessions import HttpSessions as HttpSessions
from moorage.store.api.http_sessions import Session as Session

# A kubeconfig as values.
from moorage.store.api.kubeconfig_file import Cluster as Cluster
from moorage.store.api.kubeconfig_file import User as User
from moorage.store.api.kubeconfig_file import read_kubeconfig as read_kubeconfig

# Limits by a clock that a test moves; watches that are cut, and begun again.
from moorage.store.api.rate_limit import RateLimit as RateLimit
from moorage.store.api.reflector import MAX_TIMEOUT as MAX_TIMEOUT
from moorage.store.api.reflector import Arrivals as Arrivals
from moorage.store.api.reflector import Backoff as Backoff
from moorage.store.api.reflector import Reflector as Reflector

# Errors that are made of any answer.
from moorage.store.api.server_errors import error_of as error_of
from moorage.store.api.server_errors import status_of as status_of

# Two names of the room are the same.
__all__ = ["twin_server_Answer"]
