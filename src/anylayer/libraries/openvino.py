"""OpenVINO, with its telemetry switched off. This is the only file that imports it.

Importing this file raises ImportError where OpenVINO is not installed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_TELEMETRY = "openvino_telemetry"


def _user_consents() -> bool:
    """Return whether the user has agreed to OpenVINO's telemetry (`opt_in_out --opt_in` writes 1 to a file)."""
    try:
        return (Path.home() / "intel" / _TELEMETRY).read_text().strip() == "1"
    except (OSError, RuntimeError, ValueError):
        return False


def _without_telemetry() -> contextlib.AbstractContextManager[None]:
    """Return a context in which importing OpenVINO does not load its telemetry package.

    That package sends an event for each import. OpenVINO uses a stand-in where the package cannot be imported.
    Nothing is changed where the user has agreed to telemetry or has loaded either package already.
    """
    if "openvino" in sys.modules or _TELEMETRY in sys.modules or _user_consents():
        return contextlib.nullcontext()
    return _hide(_TELEMETRY)


@contextlib.contextmanager
def _hide(module: str) -> Iterator[None]:
    """Make every import of a module raise ImportError until the context ends."""
    sys.modules[module] = None  # type: ignore[assignment]  # None makes imports fail
    try:
        yield
    finally:
        del sys.modules[module]


with _without_telemetry():
    import openvino

ov: Any = openvino
_core: Any = None
_lock = threading.Lock()


def shared_core() -> Any:
    """Return the openvino.Core of this process."""
    global _core
    with _lock:
        if _core is None:
            _core = ov.Core()
        return _core


@cache
def saturates() -> bool:
    """Return whether OpenVINO saturates sums of products of bytes here: see libraries.onnx.byte_product."""
    from anylayer.libraries.onnx import byte_product

    model, x, want = byte_product()
    program = shared_core().compile_model(shared_core().read_model(model.SerializeToString()), "CPU")
    return float(program(x)[0].item()) != want


def add_onnx_operator(name: str, domain: str, convert: Callable[[Any], list[Any]]) -> None:
    """Have the shared core convert an ONNX operator with `convert`: from the frontend's node to outputs."""
    from openvino.frontend.onnx import ConversionExtension

    shared_core().add_extension(ConversionExtension(name, domain, convert))


def extension_flags() -> list[str] | None:
    """Return the arguments for a compiler that builds an extension of this OpenVINO, None if it has no headers."""
    folder = Path(ov.__file__).parent
    libraries = [
        file for name in ("openvino", "tbb") for file in sorted((folder / "libs").glob(f"lib{name}.so.*"))
    ]
    if not libraries or not (folder / "include" / "openvino").is_dir():
        return None
    return ["-isystem", str(folder / "include"), *map(str, libraries)]


def read_onnx(data: bytes) -> Any:
    """Return OpenVINO's model of an ONNX file. TopK orders equal values by index, as in ONNX, which is slower."""
    model = shared_core().read_model(data)
    for node in [n for n in model.get_ops() if n.get_type_name() == "TopK"]:
        if node.output(1).get_target_inputs() and not _order_by_two_sorts(node):
            node.set_attribute("stable", True)
    return model


_LONG = 512


def _order_by_two_sorts(node: Any) -> bool:
    """Replace a TopK of many float32 numbers by a sort of the numbers, and one of integers that are their ranks
    and, for equal numbers, their indices. Return False if the node stays as it is.

    A stable TopK takes time with the square of its size, for 6000 numbers 75 ms; both sorts take 2 ms.
    """
    op = ov.opset13

    x, axis = node.input_value(0), node.get_axis()
    shape = x.get_partial_shape()
    n = shape[axis].get_length() if shape.rank.is_static and shape[axis].is_static else 0
    count = node.input_value(1).get_node()
    if not _LONG < n <= 46340 or x.get_element_type() != ov.Type.f32 or count.get_type_name() != "Constant":
        return False
    mode = node.get_attributes()["mode"]
    first = op.topk(x, np.int64(n), axis, mode, "value", "i32")
    at = [np.array([i], np.int64) for i in (0, 1, n - 1, n)]
    ends = (op.slice(first.output(0), s, e, at[1], np.array([axis])) for s, e in ((at[1], at[3]), (at[0], at[2])))
    greater = op.convert(op.not_equal(*ends), "i32")
    indices = first.output(1)
    zero = op.multiply(op.slice(indices, at[0], at[1], at[1], np.array([axis])), np.int32(0))
    ranks = op.concat([zero, op.cum_sum(greater, np.int32(axis))], axis)
    keys = op.add(op.multiply(ranks, np.int32(n)), indices)
    order = op.topk(keys, count.output(0), axis, "min", "value", "i32").output(1)
    order = op.gather_elements(indices, order, axis)
    node.output(0).replace(op.gather_elements(x, order, axis).output(0))
    node.output(1).replace(op.convert(order, node.get_output_element_type(1).get_type_name()).output(0))
    return True


def fold_constants(model: Any) -> None:
    """Fold the constants of a model, in place."""
    from openvino import passes

    manager = passes.Manager()
    manager.register_pass(passes.ConstantFolding())
    manager.run_passes(model)
