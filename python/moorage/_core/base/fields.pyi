from typing import Self, final

@final
class Field:
    def __new__(cls, name: str) -> Self: ...
