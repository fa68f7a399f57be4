"""An `ObjectClient` over a real API server; needs the extra ``kube``."""

from importlib.util import find_spec

if find_spec("httpx2") is None:
    raise ImportError("httpx2 is missing: pip install 'moorage[kube]'", name="httpx2")

from .api_client import ApiClient as ApiClient
from .connection import Connection as Connection
from .kubeconfig import connect as connect
