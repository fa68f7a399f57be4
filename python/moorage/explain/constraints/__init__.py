"""The constraints of a pod: what each is, how it is dropped or loosened, and by which nodes it is not met."""
