from typing import Self

from moorage._core.state.pod_class import Shape

class Prepared:
    def __new__(cls, shape: Shape) -> Self: ...
