"""An `ObjectClient` over a real API server; needs the extra ``kube``."""

from .api_client import ApiClient as ApiClient
from .connection import Connection as Connection
from .kubeconfig import connect as connect
