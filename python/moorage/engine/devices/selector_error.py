"""The error of an expression for devices, without what compiles one: CEL takes long to import."""


class SelectorError(Exception):
    """An expression cannot be evaluated for a device; the message is upstream's."""
