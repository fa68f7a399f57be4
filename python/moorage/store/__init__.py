"""An object store with the semantics of an API server, informers and listers."""

from __future__ import annotations

from .deletion import evict_pod as evict_pod
from .errors import AlreadyExistsError as AlreadyExistsError
from .errors import ApiError as ApiError
from .errors import BadRequestError as BadRequestError
from .errors import ConflictError as ConflictError
from .errors import ForbiddenError as ForbiddenError
from .errors import InvalidObjectError as InvalidObjectError
from .errors import NotFoundError as NotFoundError
from .errors import ResourceExpiredError as ResourceExpiredError
from .errors import ServerError as ServerError
from .errors import TooManyRequestsError as TooManyRequestsError
from .errors import UnauthorizedError as UnauthorizedError
from .errors import UnreachableError as UnreachableError
from .indexer import Indexer as Indexer
from .indexer import Lister as Lister
from .informer import DeletedFinalStateUnknown as DeletedFinalStateUnknown
from .informer import Informer as Informer
from .informer import InformerFactory as InformerFactory
from .informer import Registration as Registration
from .informer import ResourceEventHandler as ResourceEventHandler
from .pod_status_patch import patch_pod_status as patch_pod_status
from .protocol import ObjectClient as ObjectClient
from .protocol import Patch as Patch
from .protocol import PatchType as PatchType
from .protocol import Replacement as Replacement
from .protocol import Watcher as Watcher
from .protocol import WatchEvent as WatchEvent
from .protocol import find_object as find_object
from .selectors import kind_named as kind_named
from .selectors import only_namespace as only_namespace
from .selectors import parse_reference as parse_reference
from .store import ObjectStore as ObjectStore
from .tables import Save as Save
from .watch import Watch as Watch
