"""Sets of inputs for the calibration of int8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.compile.inputs import input_arrays
from anylayer.errors import InputError, at, need
from anylayer.graph.open_sizes import OpenSizes
from anylayer.network import Array, Network, TensorType

Types = Mapping[str, TensorType | None]


class CalibrationSets(Sequence[dict[str, Array]]):
    """The sets of inputs that a caller gives, as arrays of the network's types. Each set is converted when it is
    read.

    `given` has a mapping from inputs to arrays for each set, or an array if the network has only one input.
    `types` are the types of the network's inputs. The arrays of a set may have any of the open `sizes`.
    """

    def __init__(self, samples: Sequence[Any], network: Network, types: Types, sizes: OpenSizes | None) -> None:
        rule = "calibrate must be a list of sets of inputs: [{'data': x}, ...]"
        need(isinstance(samples, Sequence) and not isinstance(samples, str), rule, InputError)
        self.given, self.network, self.types, self.sizes = samples, network, types, sizes

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, index: int) -> dict[str, Array]:  # type: ignore[override]  # sets are taken one by one
        sample = self.given[index]
        with at(f"calibration set {index}"):
            if not isinstance(sample, Mapping):
                need(len(self.types) == 1, "a set must map the names of the inputs to arrays", InputError)
                sample = {next(iter(self.types)): sample}
            arrays = input_arrays(self.network, sample)
            need_shapes(arrays, self.types, self.sizes)
            for name, array in arrays.items():
                finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
                need(finite, f"input '{name}' holds NaN or infinities, which have no range for int8", InputError)
        return arrays

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return (self[i] for i in range(len(self.given)))


def need_shapes(arrays: Mapping[str, Array], types: Types, sizes: OpenSizes | None) -> None:
    """Raise InputError for an array whose shape its input does not have."""
    opened = sizes.shapes if sizes is not None else {}
    for name, array in arrays.items():
        kind = types.get(name)
        if name in opened:
            fits, want = array.ndim == len(opened[name]), tuple[Any, ...](map(str, opened[name]))
        else:
            want = kind.shape if kind is not None else array.shape
            fits = array.shape == want
        need(fits, f"input '{name}' has shape {array.shape}, expected {want}", InputError)
    if sizes is not None:
        sizes.stated().check({name: TensorType.of(array.shape, array.dtype) for name, array in arrays.items()})
