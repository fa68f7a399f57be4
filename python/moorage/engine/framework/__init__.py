"""The scheduling framework: interfaces of plugins, their results, and the profiles that order plugins.

`moorage.engine.framework.configuration` reads KubeSchedulerConfigurations; `moorage.compat.v1alpha1` is the
first version of the framework's interface, of 2019.

The names are imported when they are first used (PEP 562).
"""

from moorage.lazy import names_at_first_use

__getattr__, __dir__, __all__ = names_at_first_use(__name__, __file__)
