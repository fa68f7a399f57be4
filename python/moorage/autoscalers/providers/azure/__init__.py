"""Sizes of virtual machines of Azure."""
