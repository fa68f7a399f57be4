"""A twin of a cluster: it follows the cluster, and answers questions in child processes."""

from ..serve.web_server import Reply as Reply
from .followed_cluster import FollowedCluster as FollowedCluster
from .forked_answers import Forks as Forks
from .forked_answers import Limits as Limits
from .forked_answers import Output as Output
from .forked_answers import Template as Template
from .forked_answers import TwinRefusalError as TwinRefusalError
from .predicted_bindings import PredictedBindings as PredictedBindings
from .twin_server import TwinServer as TwinServer
