"""``KubeSchedulerConfiguration`` (``kubescheduler.config.k8s.io/v1``) as kube-scheduler v1.36 reads it.

`load_configuration` decodes strictly, sets defaults and validates. `build_profiles` lists the plugins of each
extension point with weights and arguments, for a registry of plugins; `effective` returns the effective
configuration as a JSON value. Errors have upstream's messages, and the stage in which upstream raises them.

The names are imported when they are first used (PEP 562).
"""

from moorage.lazy import names_at_first_use

__getattr__, __dir__, __all__ = names_at_first_use(__name__, __file__)
