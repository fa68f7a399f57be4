"""An `ObjectClient` over a real API server; needs the extra ``kube``."""

from importlib.util import find_spec

from moorage.errors import MoorageError, missing

if find_spec("httpx2") is None:
    raise MoorageError(missing("httpx2", "kube"))

from .api_client import ApiClient as ApiClient
from .connection import Connection as Connection
from .kubeconfig import connect as connect
