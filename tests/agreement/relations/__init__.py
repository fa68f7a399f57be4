"""The relations, by what they ask about; each registers itself."""

from tests.agreement.relations import capacity as capacity
from tests.agreement.relations import drains as drains
from tests.agreement.relations import forms as forms
from tests.agreement.relations import later_files as later_files
from tests.agreement.relations import losses as losses
from tests.agreement.relations import new_nodes as new_nodes
from tests.agreement.relations import offers as offers
from tests.agreement.relations import options as options
from tests.agreement.relations import order as order
from tests.agreement.relations import replays as replays
