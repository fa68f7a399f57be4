"""Planning: questions about a cluster that leave the scheduler as it was. Users call them as methods of
`Scheduler`."""
