"""What Karpenter reads of pods."""
