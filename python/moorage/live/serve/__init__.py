"""A scheduler of a real cluster, in real time."""

from .delegated_authorization import DelegatedAuthorization as DelegatedAuthorization
from .event_broadcaster import EventBroadcaster as EventBroadcaster
from .extender_server import ExtenderServer as ExtenderServer
from .extender_service import ExtenderService as ExtenderService
from .leader_lease import LeaderLease as LeaderLease
from .live_run import LiveRun as LiveRun
from .live_scheduler import LiveScheduler as LiveScheduler
from .secure_server import SecureServer as SecureServer
from .writer import Writer as Writer
