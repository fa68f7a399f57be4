"""What Karpenter decides with: requirements on labels, topologies, and tables of hosts."""
