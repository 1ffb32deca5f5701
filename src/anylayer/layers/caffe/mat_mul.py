"""MatMul (Sophgo)."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("MatMul")
class MatMul(Layer):
    """Compute a @ b.T for matrices a (dim_1, dim_2) and b (dim_3, dim_2), the first elements of the inputs.

    Two inputs of any shape to (dim_1, dim_3). The shapes of the inputs have no meaning: the elements, in C order,
    are those of the matrices, and further ones are not read. There is no batch.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "matmul_param"
    numbers: ClassVar = {"": 307, "sophgo": 307}
    dim_1: int = field(1, "uint32", doc="rows of the first matrix")
    dim_2: int = field(2, "uint32", doc="columns of both matrices")
    dim_3: int = field(3, "uint32", doc="rows of the second matrix")

    def setup(self) -> None:
        sizes = (self.dim_1, self.dim_2, self.dim_3)
        need(min(sizes) > 0, f"dim_1, dim_2 and dim_3 must be at least 1, got {sizes}")

    def forward(self, a: Array, b: Array) -> Array:
        return self._first(a, "input 0", self.dim_1) @ self._first(b, "input 1", self.dim_3).T

    def _first(self, x: Array, what: str, rows: int) -> Array:
        """Return the first elements of `x` as (rows, dim_2)."""
        length, count = rows * self.dim_2, prod(x.shape)
        need(count >= length, f"{what} must have at least {rows} * {self.dim_2} elements, got {count}")
        if count > length:
            self.note(
                f"only the first {length} of the {count} elements of {what} are read, as Sophgo's Caffe does"
            )
        return x.reshape(count)[:length].reshape(rows, self.dim_2)
