"""A layer that runs in Python between two graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.compile.nodes import after_error, guarded, run_bound
from anylayer.compile.plan import HostStep, Plan
from anylayer.compile.shared import unshared
from anylayer.errors import AnyLayerError, LayerError, at, call_contained, need
from anylayer.layer import Bound
from anylayer.network import Array, TensorType


class HostCall:
    """A layer that runs in Python, one thread at a time in its class (it may keep state).

    An output that a graph reads (named in `fixed`) must have the shape that graph was compiled for; another
    may have a size that depends on data. What cannot change is checked in the first call alone.
    """

    def __init__(self, step: HostStep, plan: Plan, fixed: set[str]) -> None:
        bound = step.traced.bound
        need(bound is not None, "a host call without a layer")
        self._bound: Bound = bound  # type: ignore[assignment]
        self._wanted = [(t.shape, t.dtype) for t in (plan.types[name] for name in step.traced.node.outputs)]
        self._fixed = [name in fixed for name in step.traced.node.outputs]
        self._called = False

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        with self._bound.turn:
            if not self._called or self._bound.definition.built_in or self._bound.errors != "ignore":
                outputs = self._fitting(run_bound(self._bound, inputs))
                self._called = True
                return outputs
            return self._again(inputs)

    @np.errstate(all="ignore")
    def _again(self, inputs: Sequence[Array]) -> list[Array]:
        """A user's class called once more: as run_bound, quicker."""
        bound = self._bound
        given: Sequence[Any] = guarded(bound, inputs)
        try:
            result = bound.raw(given, call_contained)
        except AnyLayerError as error:
            with at(bound.node.place):
                raise error
        except Exception as error:
            return self._fitting(after_error(bound, inputs, error))
        outputs = [*result] if isinstance(result, (list, tuple)) else result
        outputs = [result] if outputs is result and bound.definition.typed else outputs
        given, result = (), None  # their references would count
        if not self._fits(outputs):
            outputs = [np.asarray(o) for o in bound.outputs(outputs)]
            return self._fitting(unshared(outputs))
        return unshared(outputs)

    def _fits(self, outputs: Any) -> bool:
        """Whether the outputs are the arrays that are wanted, as the next graphs take them."""
        if type(outputs) is not list or len(outputs) != len(self._wanted):
            return False
        for output, (shape, dtype) in zip(outputs, self._wanted):
            if type(output) is not np.ndarray or output.shape != shape or output.dtype != dtype:
                return False
            if not output.flags.c_contiguous:
                return False
        return True

    def _fitting(self, outputs: list[Array]) -> list[Array]:
        """The outputs as the next graphs take them; refuse one of another type than those were compiled for."""
        for i, (got, (shape, dtype), fixed) in enumerate(zip(outputs, self._wanted, self._fixed)):
            if fixed and (got.shape != shape or got.dtype != dtype):
                found = TensorType(got.shape, got.dtype)
                raise LayerError(
                    f"output {i} of forward is {found}, it was {TensorType(shape, dtype)} before the network ran. "
                    "A size that depends on data needs engine 'numpy'",
                    self._bound.node.place,
                )
        return [np.asarray(o, order="C") for o in outputs]
