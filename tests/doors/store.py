"""What tests need of the inside of store."""

from moorage.store.clock import timestamp as timestamp
from moorage.store.clock import timestamps as timestamps
from moorage.store.errors import NotSentError as NotSentError
from moorage.store.errors import conflict as conflict
from moorage.store.field_selectors import predicate as predicate
from moorage.store.informers.indexer import KeyLog as KeyLog
from moorage.store.kinds import structs as structs
from moorage.store.patches.json_patch import json_patch as json_patch
from moorage.store.patches.patch import apply_patch as apply_patch
from moorage.store.pod_binding import Binding as Binding
from moorage.store.store import _last_state as _last_state
from moorage.store.store import _with_condition as _with_condition
from moorage.store.watch import with_version as with_version
