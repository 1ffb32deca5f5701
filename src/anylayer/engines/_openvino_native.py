"""Native layers as operations of OpenVINO's models.

An operation in Python calls the layer. It takes 11 us with small arrays; ending one model before the layer and
beginning another one after it takes 16. It needs no compiler, and leaves conversions and checks to the layer's own
call. OpenVINO 2026.4 goes on where an operation in Python raises an exception or returns False, so exceptions are
kept here, and the caller looks for them after each run.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any
from weakref import finalize

from anylayer.compile.plan import NATIVE_DOMAIN
from anylayer.kernels.layer import NativeLayer
from anylayer.libraries.openvino import add_onnx_operator, ov


class Failures:
    """The exceptions of a model's layers: their number, and the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last: BaseException | None = None

    def add(self, error: BaseException) -> None:
        """Keep an exception. `last` is set first, so that it is there for whoever sees the new count."""
        self.last = error
        self.count += 1


class _Call:
    """A layer of a model: its program, the types of its outputs, and where its exceptions go."""

    def __init__(self, layer: NativeLayer, threads: int | None, failures: Failures) -> None:
        self.program, self.types, self.failures = layer.program(threads), layer.outputs, failures
        self.inputs, self.outputs = range(len(layer.types)), range(len(layer.outputs))


_calls: dict[int, _Call] = {}
"""The layers of the models that exist, by number. OpenVINO never frees an operation in Python, so an operation
holds a number."""
_numbers = itertools.count(1)
_lock = threading.Lock()
_registered = False


class Calls:
    """The native layers of a model. `numbers` are the values of the operators' attribute `call`.

    `failures` counts the exceptions of the layers. A run during which the count has changed has no results. Where
    several threads run the model at that time, it cannot be told whose run it was, so all of them raise the
    exception.
    """

    def __init__(self, layers: Sequence[NativeLayer], threads: int | None) -> None:
        self.failures = Failures()
        self.numbers = [next(_numbers) for _ in layers]
        for number, layer in zip(self.numbers, layers):
            _calls[number] = _Call(layer, threads, self.failures)
            finalize(self, _calls.pop, number)
        if layers:
            _register()


class _NativeLayer(ov.Op):  # type: ignore[misc]  # openvino is Any
    """An operation that calls a native layer."""

    def __init__(self, inputs: Sequence[Any] | None = None, call: int = 0) -> None:
        self.number = call
        super().__init__(self, inputs)

    def validate_and_infer_types(self) -> None:
        for i, kind in enumerate(_calls[self.number].types):
            self.set_output_type(i, ov.Type.f32, ov.PartialShape(list(kind.shape)))

    def clone_with_new_inputs(self, inputs: Sequence[Any]) -> _NativeLayer:
        return _NativeLayer(inputs, self.number)

    def has_evaluate(self) -> bool:
        return True

    def evaluate(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
        call = _calls[self.number]
        try:  # tensors by index: an iterator over them takes 15 us
            call.program([inputs[i].data for i in call.inputs], [outputs[i].data for i in call.outputs])
        except BaseException as error:
            call.failures.add(error)
        return True


def _register() -> None:
    """Have OpenVINO convert the operator of native layers, once."""
    global _registered
    with _lock:
        if not _registered:
            add_onnx_operator("NativeLayer", NATIVE_DOMAIN, _converted)
            _registered = True


def _converted(node: Any) -> Any:
    inputs = [node.get_input(i) for i in range(node.get_input_size())]
    return _NativeLayer(inputs, call=int(node.get_attribute("call"))).outputs()
