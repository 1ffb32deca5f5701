"""Host calls: layers that run in Python, between two graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.compile.nodes import after_error, guarded, run_bound
from anylayer.compile.plan import HostStep, Plan
from anylayer.compile.shared import unshared
from anylayer.errors import AnyLayerError, LayerError, at, call_contained, given
from anylayer.layer import Bound
from anylayer.network import Array, TensorType


class HostCall:
    """A layer that runs in Python. Its class is called by one thread at a time, because it may keep state.

    An output that a graph reads (its name is in `fixed`) must have the shape for which that graph was compiled.
    Other outputs may have dynamic sizes. The first call has more checks, for properties that cannot change between
    calls.
    """

    def __init__(self, step: HostStep, plan: Plan, fixed: set[str]) -> None:
        self._bound: Bound = given(step.traced.bound, "a host call needs a layer")
        self._expected = [(t.shape, t.dtype) for t in (plan.types[name] for name in step.traced.node.outputs)]
        self._fixed = [name in fixed for name in step.traced.node.outputs]
        self._called = False

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        with self._bound.turn:
            if not self._called or self._bound.definition.built_in or self._bound.errors != "ignore":
                outputs = self._contiguous(run_bound(self._bound, inputs))
                self._called = True
                return outputs
            return self._again(inputs)

    @np.errstate(all="ignore")
    def _again(self, inputs: Sequence[Array]) -> list[Array]:
        """Call a user's class again. This does what run_bound does, with fewer checks."""
        bound = self._bound
        given: Sequence[Any] = guarded(bound, inputs)
        try:
            result = bound.raw(given, call_contained)
        except AnyLayerError as error:
            with at(bound.node.place):
                raise error
        except Exception as error:
            return self._contiguous(after_error(bound, inputs, error))
        outputs = [*result] if isinstance(result, (list, tuple)) else result
        outputs = [result] if outputs is result and bound.definition.typed else outputs
        given, result = (), None  # unshared counts references
        if not self._fits(outputs):
            outputs = [np.asarray(o) for o in bound.outputs(outputs)]
            return self._contiguous(unshared(outputs))
        return unshared(outputs)

    def _fits(self, outputs: Any) -> bool:
        """Return whether the outputs are contiguous arrays of the expected shapes and dtypes."""
        if type(outputs) is not list or len(outputs) != len(self._expected):
            return False
        for output, (shape, dtype) in zip(outputs, self._expected):
            if type(output) is not np.ndarray or output.shape != shape or output.dtype != dtype:
                return False
            if not output.flags.c_contiguous:
                return False
        return True

    def _contiguous(self, outputs: list[Array]) -> list[Array]:
        """Return the outputs as contiguous arrays. Raise LayerError where an output that a graph reads has another
        type than in the plan."""
        for i, (got, (shape, dtype), fixed) in enumerate(zip(outputs, self._expected, self._fixed)):
            if fixed and (got.shape != shape or got.dtype != dtype):
                found = TensorType(got.shape, got.dtype)
                raise LayerError(
                    f"output {i} of forward is {found}; it was {TensorType(shape, dtype)} when the network was "
                    "compiled. For a size that depends on data, use engine 'numpy'",
                    self._bound.node.place,
                )
        return [np.asarray(o, order="C") for o in outputs]
