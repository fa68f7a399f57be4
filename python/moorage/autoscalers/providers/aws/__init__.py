"""AWS: which instance types EC2 has, and what Karpenter's provider v1.15.0 makes of them for an EC2NodeClass.

``ec2_types`` is what EC2 says of a type, from ``ec2_catalogue`` or from a file. ``node_class`` is what an
EC2NodeClass sets. ``ec2_instance_types`` puts the rules together: ``type_labels``, ``node_capacity`` (with
``kubelet_expressions``) and ``ec2_offerings``. ``fleet`` says what EC2 is asked for once a claim is made.
"""
