"""An object store with the semantics of an API server, informers and listers."""

from __future__ import annotations

from .errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidObjectError,
    NotFoundError,
    ResourceExpiredError,
)
from .informers.factory import InformerFactory
from .informers.indexer import Indexer
from .informers.informer import (
    DeletedFinalStateUnknown,
    Informer,
    Registration,
    ResourceEventHandler,
)
from .informers.lister import Lister
from .pod_status_patch import patch_pod_status
from .protocol import ObjectClient, Patch, PatchType, Watcher, WatchEvent
from .store import ObjectStore
from .tables import Save
from .watch import Watch

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "BadRequestError",
    "ConflictError",
    "DeletedFinalStateUnknown",
    "Indexer",
    "Informer",
    "InformerFactory",
    "InvalidObjectError",
    "Lister",
    "NotFoundError",
    "ObjectClient",
    "ObjectStore",
    "Patch",
    "PatchType",
    "Registration",
    "ResourceEventHandler",
    "ResourceExpiredError",
    "Save",
    "Watch",
    "WatchEvent",
    "Watcher",
    "patch_pod_status",
]
