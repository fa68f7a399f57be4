from moorage._core.pod_class import Shape

class Prepared:
    def __init__(self, shape: Shape) -> None: ...
