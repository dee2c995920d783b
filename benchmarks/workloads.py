"""What is reduced: lists of tensors, the same for every engine."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

KB, MB = 2**10, 2**20
ALLREDUCE_BYTES = (4 * KB, 64 * KB, MB, 16 * MB, 64 * MB, 256 * MB)
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_RESNET50 = Path(__file__).with_name("resnet50_shapes.json")


@dataclass(frozen=True)
class Workload:
    """Tensors to reduce as one step.

    Attributes:
        name: For tables, such as "1 MB".
        shapes: Of the tensors.
        dtype: "float32", "float16" or "bfloat16".
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        """Of all tensors together."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def bytes(self) -> int:
        """Of all tensors together."""
        return self.elements * ITEM_BYTES[self.dtype]

    def to_json(self) -> dict[str, object]:
        """For a message to a worker."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, object]) -> Workload:
        """The reverse of `to_json`, which has made lists of the tuples."""
        shapes = data["shapes"]
        assert isinstance(shapes, list)
        return cls(str(data["name"]), tuple(map(tuple, shapes)), str(data["dtype"]))


def size_text(size: int) -> str:
    """4096 -> "4 KB", with 1,024 bytes to the KB."""
    for unit, factor in (("MB", MB), ("KB", KB)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def single(size: int, dtype: str = "float32") -> Workload:
    """One tensor: `size` is what it would take in float32, whatever the dtype.

    So float16's and float32's workloads of one size have as many elements.
    """
    name = size_text(size) if dtype == "float32" else f"{size_text(size)} as {dtype}"
    return Workload(name, ((size // 4,),), dtype)


def thousand_small() -> Workload:
    """1,000 tensors of 1 KB."""
    return Workload("1,000 x 1 KB", ((256,),) * 1000)


def resnet50_gradients() -> Workload:
    """The gradients of ResNet-50 with 1,000 classes, last layer first as they are computed."""
    shapes = json.loads(_RESNET50.read_text(encoding="utf-8"))
    return Workload("ResNet-50 gradients", tuple(map(tuple, reversed(shapes))))
