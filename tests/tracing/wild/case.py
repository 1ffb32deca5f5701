"""A case: a function or layer, its inputs, and the reason why it is not traced yet."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.caffe import Layer
from anylayer.caffe.python_layer import definition_of
from anylayer.compile.selections import trace_with_selections
from anylayer.function_nodes import Results
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.tracing import call_user, trace_checked
from anylayer.tracing.rules.concatenation import array_like

Inputs = Callable[[np.random.Generator, float], Sequence[Any]]
SHARES = (0.4, 0.0, 1.0, 0.1, 0.7)
"""The shares of the elements that a case selects. With 0 nothing is left."""


@dataclass(frozen=True)
class Case:
    """A function of arrays, a caffe.Layer, or a class with OpenCV's contract.

    `inputs(random, share)` returns the arrays, of which about `share` of the elements are selected. `reason` is a
    part of the error for one that is not traced. A layer has `tops` outputs.
    """

    subject: Any
    inputs: Inputs
    reason: str = ""
    tops: int = 1
    tolerance: float = 1e-4

    @property
    def name(self) -> str:
        return str(self.subject.__name__)

    @property
    def kind(self) -> str:
        """The module that holds the case."""
        return str(self.subject.__module__).rpartition(".")[2]

    def given(self, seed: int) -> list[Array]:
        """Return inputs. Of the first seeds, each selects another share."""
        share = SHARES[seed % len(SHARES)]
        return [np.asarray(x) for x in self.inputs(np.random.default_rng(seed), share)]

    def made(self) -> tuple[Any, Callable[[list[Any]], list[Any]]]:
        """Return a new instance, and a function from the inputs to a list of outputs."""
        if isinstance(self.subject, type) and issubclass(self.subject, Layer):
            layer = definition_of(self.subject, self.tops).cls({}, [])
            return layer.layer, layer.forward
        if isinstance(self.subject, type):
            instance = self.subject({}, [])
            return instance, lambda arrays: _listed(call_user(instance.forward, arrays))
        results = _RESULTS.setdefault(self.subject, Results())
        return self.subject, lambda arrays: results.arrays(call_user(self.subject, *arrays), array_like)

    def want(self, arrays: Sequence[Array]) -> list[Array]:
        """Return what NumPy computes."""
        with np.errstate(all="ignore"):
            return [np.asarray(y) for y in self.made()[1]([x.copy() for x in arrays])]

    def traced(self) -> Graph:
        """Return the graph. Raises AnyLayerError if the code cannot be recorded."""
        tried: list[Any] = []

        def attempt() -> Callable[[list[Any]], list[Any]]:
            subject, function = self.made()
            tried.append(subject)
            return function

        types = [TensorType.of(x.shape, x.dtype) for x in self.given(0)]
        graph = trace_with_selections(
            lambda sized: trace_checked(attempt(), sized, rebuild=attempt, subject=lambda: tried[-1]), types
        )
        if self.subject in _RESULTS:
            _RESULTS[self.subject].learn(graph)
        return graph


_RESULTS: dict[Any, Results] = {}
"""The results of each function as anylayer.export returns them."""


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


CASES: list[Case] = []


def wild(inputs: Inputs, reason: str = "", **options: Any) -> Callable[[Any], Any]:
    """Enter the decorated function or class as a case."""

    def enter(subject: Any) -> Any:
        CASES.append(Case(subject, inputs, reason, **options))
        return subject

    return enter


def all_cases() -> list[Case]:
    """Return the cases of all files in this folder."""
    folder = Path(__file__).parent
    for name in sorted(m.name for m in pkgutil.iter_modules([str(folder)])):
        if name not in ("case", "__main__") and not name.startswith("test_"):
            importlib.import_module(f"{__package__}.{name}")
    return CASES
