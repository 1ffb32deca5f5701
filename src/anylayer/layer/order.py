"""The order of axes in which a user's class sees arrays of rank 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, need
from anylayer.network import Node, Shape

ORDERS = ("NCHW", "NHWC")


def order_seen(cls: Any, node: Node) -> str:
    """Return "NCHW" or "NHWC": the order in which a class with OpenCV's contract sees arrays of rank 4 at a node.

    The class's own `layout` decides, then what OpenCV does with the node's format, then the file. Return "" where
    none of them says it; the class then gets arrays in the order of the network.
    """
    stated = stated_order(cls)
    need(
        not stated or node.layout in ("", *ORDERS),
        f'the class says layout = "{stated}", and the network has channels-first and channels-last layers: '
        "remove the line and use the arrays as they come",
    )
    return stated or node.opencv_layout or node.layout


def stated_order(cls: Any) -> str:
    """Return the `layout` that a class states, or "". Raise LayerError for any other text than NCHW or NHWC."""
    stated = getattr(cls, "layout", "")
    if not isinstance(stated, str) or not stated:
        return ""
    need(stated in ORDERS, f'the class says layout = "{stated}", expected "NCHW" or "NHWC"')
    return stated


def permuted(shape: Sequence[Any], source: str, target: str) -> tuple[Any, ...]:
    """Return a shape of rank 4 in another order of axes; any other shape as it is."""
    if source == target or len(shape) != 4:
        return tuple(shape)
    return tuple(shape[i] for i in permutation(source, target))


def permutation(source: str, target: str) -> tuple[int, ...]:
    """Return the permutation from one order of axes to another, as np.transpose takes it."""
    return tuple(source.index(axis) for axis in target)


class Order:
    """The conversion between the file's order of axes and the one that a class sees.

    `stated` says that the class names its order itself.
    """

    def __init__(self, file: str, seen: str, stated: bool) -> None:
        self.file, self.seen, self.stated = file, seen, stated
        self._in, self._out = permutation(file, seen), permutation(seen, file)

    def to_class(self, arrays: Sequence[Any]) -> list[Any]:
        """Return inputs in the order of axes of the class. NumPy arrays are contiguous, as with OpenCV."""
        transposed = []
        for x in arrays:
            if x is not None and len(x.shape) == 4:
                x = x.transpose(self._in)
                x = np.ascontiguousarray(x) if type(x) is np.ndarray and any(x.strides) else x
            transposed.append(x)
        return transposed

    def to_file(self, result: Any, inputs: Sequence[Any]) -> Any:
        """Return the outputs of forward in the file's order. Raise LayerError where one has the file's order
        already. A result that is not a list of arrays is returned as it is; Bound refuses it."""
        if not isinstance(result, (tuple, list)):
            return result
        shapes = [x.shape for x in inputs if x is not None]
        outputs = []
        for i, y in enumerate(result):
            shape = getattr(y, "shape", ())
            if isinstance(shape, tuple) and len(shape) == 4 and hasattr(y, "transpose"):
                self.check(shape, shapes, f"output {i} of forward")
                y = y.transpose(self._out)
            outputs.append(y)
        return outputs

    def check(self, shape: Shape, inputs: Sequence[Shape], what: str) -> None:
        """Raise LayerError for an output shape that is an input's shape in the file's order of axes, unless the
        class states its order. `inputs` are shapes in the file's order."""
        if self.stated or len(shape) != 4:
            return
        for file_shape in inputs:
            seen = permuted(file_shape, self.file, self.seen)
            if len(file_shape) == 4 and tuple(shape) == tuple(file_shape) != seen:
                raise LayerError(
                    f"{what} has shape {tuple(shape)}, which is {self.file}; the class is given {self.seen}, here "
                    f'{seen}, and must return it. To work on {self.file}, write layout = "{self.file}" in the '
                    f'class; if the shape is meant, layout = "{self.seen}"'
                )
