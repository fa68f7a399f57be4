"""AWS: which instance types EC2 has, and what Karpenter's provider v1.15.0 makes of them for an EC2NodeClass.

`ec2_answers` is what EC2 says of types and of an account, from a file or from the catalogue. `node_class` is
what an EC2NodeClass sets. `ec2_instance_types` puts the rules together: labels, offerings, and what a node
has, by `node_capacity` (with `kubelet_expressions`). `region_types` says which types the pools of a cluster
have, and `fleet` what EC2 is asked for once a claim is made.
"""
