"""The version of moorage, which rooms print."""

__version__ = "0.1.0"
