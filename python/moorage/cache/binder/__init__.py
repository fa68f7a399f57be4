"""BinderCache: what a binder that checks the proposals of several schedulers keeps of a cluster."""
