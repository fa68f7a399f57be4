"""BinderCache: the cache of a binder, which validates and binds the proposals of several schedulers."""
