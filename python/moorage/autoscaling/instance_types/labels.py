"""The labels of nodes that say what they are, and a value of one."""

POOL = "karpenter.sh/nodepool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
RESERVED = "reserved"
"""The capacity type of an offering whose instances were paid for before."""
