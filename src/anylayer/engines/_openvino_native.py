"""Native layers as operations of OpenVINO's models.

OpenVINO's interface for operations is C++ and differs between its versions, so the operation is compiled for the
OpenVINO that is installed. This takes a few seconds, and is done once: see kernels/cache.py. Where there is no
compiler, a native layer is a step between two models instead.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from anylayer.compile.plan import NATIVE_DOMAIN
from anylayer.errors import FileError, InputError
from anylayer.graph import Graph, Op, Value
from anylayer.graph.operators import ELEMENTWISE, WINDOWED
from anylayer.kernels.cache import library
from anylayer.kernels.compiler import compiler, sdk
from anylayer.libraries.openvino import extension_flags, ov, shared_core

_SOURCE = "share/openvino/native_layer.cpp"
_HEADERS = ("include/anylayer/abi.h", "include/anylayer/detail/embedded.hpp")
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@cache
def has_operation() -> bool:
    """Return whether OpenVINO has the operation NativeLayer, which the first call compiles and adds."""
    flags = extension_flags()
    if flags is None:
        return False
    try:
        source = (sdk() / _SOURCE).read_text("utf-8")
        built = library(source, compiler(), ["-w", f"-DANYLAYER_KEY={_key()}", *flags])
        shared_core().add_extension(built._name)
    except (FileError, InputError, OSError, RuntimeError):
        return False
    return True


def _key() -> str:
    """Return a hash of the headers and of OpenVINO's version, on which the compiled operation depends."""
    texts = [(sdk() / name).read_bytes() for name in _HEADERS]
    return hashlib.sha256(b"\0".join([*texts, ov.__version__.encode()])).hexdigest()


def channels_last(graph: Graph) -> tuple[Graph, list[tuple[int, ...] | None]]:
    """Put Transpose operators around elementwise native layers after convolutions, so that they compute on arrays
    whose channels are last. Return the graph, and the order of axes of each native layer (None: the file's).

    OpenVINO 2026.4 has the results of convolutions in this order, and removes these operators. Without them it
    reorders the arrays before and after the layer (33 us for 16x32x32 floats).
    """
    ops: list[Op] = []
    last: set[Value] = set()
    orders: list[tuple[int, ...] | None] = []
    for o in graph.ops:
        computed = [v for v in o.inputs if v is not None and v.const is None]
        stays = bool(computed) and last.issuperset(computed)
        if o.domain == NATIVE_DOMAIN:
            stays = stays and o["kernel"].takes_any_order
            orders.append(_LAST if stays else None)
        elif o.domain or len(o.outputs[0].shape) != 4 or not (o in WINDOWED or (stays and o in ELEMENTWISE)):
            stays = False
        else:
            stays = True
        if stays:
            last.update(o.outputs)
        ops += _between_transposes(graph, o) if stays and o.domain else [o]
    changed = copy.copy(graph)
    changed.ops = ops
    return changed, orders


def _between_transposes(graph: Graph, o: Op) -> list[Op]:
    """Return the operators that replace `o`: Transposes to channels-last order, `o`, and Transposes back."""

    def transpose(x: Value, y: Value, order: Sequence[int]) -> Op:
        return replace(
            o, op="Transpose", inputs=[x], outputs=[y], attrs={"perm": list(order)}, domain="", kept=False
        )

    def turned(v: Value) -> Value:
        return Value(graph.name("channels_last"), tuple(v.shape[i] for i in _LAST), v.dtype)

    present = [v for v in o.inputs if v is not None]
    inputs, outputs = [[turned(v) for v in values] for values in (present, o.outputs)]
    return [
        *(transpose(v, t, _LAST) for v, t in zip(present, inputs)),
        replace(o, inputs=list(inputs), outputs=outputs),
        *(transpose(t, v, _FIRST) for t, v in zip(outputs, o.outputs)),
    ]
