"""What tests need of the inside of store."""

# How states of pods are made is counted.
from moorage.store import store as store

# Texts of times, many at once and one by one.
from moorage.store.clock import timestamp as timestamp
from moorage.store.clock import timestamps as timestamps

# Errors that a server or a connection gives.
from moorage.store.errors import NotSentError as NotSentError
from moorage.store.errors import conflict as conflict

# Selectors of any text.
from moorage.store.field_selectors import predicate as predicate

# What a list remembers of its keys.
from moorage.store.informers.indexer import KeyLog as KeyLog

# All kinds, which a server of the wire format has to serve.
from moorage.store.kinds import structs as structs

# Patches of JSON values, one by one.
from moorage.store.patches.json_patch import json_patch as json_patch
from moorage.store.patches.patch import apply_patch as apply_patch

# What a binding makes of a pod, and bindings that a test writes.
from moorage.store.pod_binding import Binding as Binding

# How the last state of a pod is made, for events that are compared with dicts.
from moorage.store.store import _last_state as _last_state
from moorage.store.store import _with_condition as _with_condition

# Objects with a version of their own, for events that are compared.
from moorage.store.watch import with_version as with_version
