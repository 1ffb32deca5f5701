"""The constant values of a network while its nodes are traced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.graph.sized import elements_of
from anylayer.network import Array, Node, TensorType
from anylayer.source import TracedNode


class Constants:
    """The constants by name: `values`, and those that operators compute from quantized constants in the graph.

    quantized: whether integers that stand for real numbers stay integers. The operators that read them are
    recorded then, and so are those that read the results.
    """

    def __init__(self, quantized: bool = False) -> None:
        self.values: dict[str, Array | None] = {"": None}
        self._quantized = quantized
        self._computed: dict[str, tuple[TracedNode, int]] = {}

    def add(self, traced: TracedNode) -> None:
        """Add the constant outputs of a traced node."""
        names = traced.node.outputs
        self.values.update({names[i]: c for i, c in traced.constants.items()})
        if self._quantized and traced.body is not None and all(map(self._is_known, traced.node.inputs)):
            self._computed.update({name: (traced, i) for i, name in enumerate(names)})

    def given(self, node: Node) -> dict[int, Array | None]:
        """Return the constant inputs of a node by index, also those that operators compute. None is absent."""
        return {i: self._array(name) for i, name in enumerate(node.inputs) if self._is_known(name)}

    def kept(self, node: Node) -> dict[int, Array | None]:
        """Return the constant inputs of a node by index, without those that operators compute."""
        return {i: self.values[name] for i, name in enumerate(node.inputs) if name in self.values}

    def held(self, node: Node, types: Sequence[TensorType]) -> list[int]:
        """Return the indices of constants that operations read: quantized ones, or from symbolic sizes."""
        return [i for i, x in self.kept(node).items() if _is_quantized(i, types) or elements_of(x) is not None]

    def reads_quantized(self, node: Node, types: Sequence[TensorType]) -> bool:
        """Return whether a node reads constants that are quantized, or that operators compute from such ones."""
        reads = any(name in self._computed for name in node.inputs)
        return reads or (self._quantized and any(_is_quantized(i, types) for i in self.kept(node)))

    def _is_known(self, name: str) -> bool:
        return name in self.values or name in self._computed

    def _array(self, name: str) -> Array | None:
        if name in self.values:
            return self.values[name]
        traced, index = self._computed[name]
        if traced.bound is None:
            raise ValueError(f"'{name}' is computed by no layer")
        return np.asarray(traced.bound([self._array(n) for n in traced.node.inputs])[index])


def _is_quantized(index: int, types: Sequence[TensorType]) -> bool:
    """Return whether an input of a node holds numbers in steps of a scale.

    These are integers of at most 16 bits, floats of 8 bits, and integers of 32 bits, before a scale or beside such
    numbers, as biases are.
    """
    dtype = types[index].dtype
    if dtype != np.int32:
        return _is_narrow(types[index])
    has_scale = index == 0 and len(types) > 1 and types[1].dtype.kind == "f"
    return has_scale or any(map(_is_narrow, types))


def _is_narrow(kind: TensorType) -> bool:
    dtype = kind.dtype
    return dtype.name.startswith(("int4", "uint4", "float8")) or (dtype.kind in "iu" and dtype.itemsize <= 2)
