"""The volume binder: finds, assumes and binds volumes for a pod's claims."""
