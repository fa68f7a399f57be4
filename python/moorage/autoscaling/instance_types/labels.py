"""The labels of nodes that say what they are, and a value of one."""

POOL = "karpenter.sh/nodepool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
MADE_HERE = "moorage:///"
"""How the provider's ID of a simulated node begins."""
RESERVED = "reserved"
"""The capacity type of an offering whose instances were paid for before."""
CAPACITY_TYPES = ("on-demand", "spot", RESERVED)
