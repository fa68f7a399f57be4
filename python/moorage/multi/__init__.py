"""Several schedulers on one cluster: they decide at the same time, and a binder resolves their conflicts."""

from .binder import Binder as Binder
from .partition import owners as owners
from .placement import Outcome as Outcome
from .placement import Placement as Placement
from .pool import Pool as Pool
from .pool import Processes as Processes
from .pool import Threads as Threads
from .worker import News as News
from .worker import Proposals as Proposals
from .worker import Share as Share
from .worker import Worker as Worker
