# The modules: for type checkers, and for the package, which imports each at its first use.

from . import apply_manifest as apply_manifest
from . import conflicts as conflicts
from . import custom_schemas as custom_schemas
from . import decode as decode
from . import hidden_texts as hidden_texts
from . import json_patch as json_patch
from . import kueue_versions as kueue_versions
from . import merge_patch as merge_patch
from . import overlay as overlay
from . import refusals as refusals
from . import struct_tables as struct_tables
from . import unknown_fields as unknown_fields
from . import unread_fields as unread_fields
