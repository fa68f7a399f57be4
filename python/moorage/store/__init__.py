"""An object store with the semantics of an API server, informers and listers."""

from .errors import AlreadyExistsError as AlreadyExistsError
from .errors import ApiError as ApiError
from .errors import BadRequestError as BadRequestError
from .errors import ConflictError as ConflictError
from .errors import InvalidObjectError as InvalidObjectError
from .errors import NotFoundError as NotFoundError
from .errors import ResourceExpiredError as ResourceExpiredError
from .informers.factory import InformerFactory as InformerFactory
from .informers.indexer import Indexer as Indexer
from .informers.informer import DeletedFinalStateUnknown as DeletedFinalStateUnknown
from .informers.informer import Informer as Informer
from .informers.informer import Registration as Registration
from .informers.informer import ResourceEventHandler as ResourceEventHandler
from .informers.lister import Lister as Lister
from .pod_status_patch import patch_pod_status as patch_pod_status
from .protocol import ObjectClient as ObjectClient
from .protocol import Patch as Patch
from .protocol import PatchType as PatchType
from .protocol import Watcher as Watcher
from .protocol import WatchEvent as WatchEvent
from .store import ObjectStore as ObjectStore
from .tables import Save as Save
from .watch import Watch as Watch
