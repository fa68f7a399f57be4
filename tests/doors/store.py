"""What tests need of the inside of store."""

# How states of pods are made is counted.
# Texts of times, many at once and one by one.
from moorage.kube.go_texts import timestamps as timestamps
from moorage.store import store as store

# Errors that a server or a connection gives.
from moorage.store.errors import NotSentError as NotSentError
from moorage.store.errors import conflict as conflict

# All kinds, which a server of the wire format has to serve.
from moorage.store.errors import structs as structs

# What a list remembers of its keys.
from moorage.store.indexer import KeyLog as KeyLog
from moorage.store.patch import apply_patch as apply_patch

# Patches of JSON values, one by one.
from moorage.store.patch import json_patch as json_patch

# What a binding makes of a pod, and bindings that a test writes.
from moorage.store.pod_binding import PodBinder as PodBinder

# Selectors of any text.
from moorage.store.selectors import predicate as predicate

# Objects with a version of their own, for events that are compared.
from moorage.store.watch import with_version as with_version
