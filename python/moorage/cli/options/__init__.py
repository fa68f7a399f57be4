"""Options that several commands have: the cluster, the scheduler, changes."""
