"""ONNX Runtime, with its telemetry switched off. This is the only file that imports it.

ONNX Runtime 1.31 queues the names of the machine, of graphs and of nodes, and sends them to its vendor. It reads
`ORT_DISABLE_TELEMETRY` once, while it is imported. A value that the user has set is left as it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from anylayer.libraries.onnx import byte_product, joined, split_after
from anylayer.network import Array

_VARIABLE = "ORT_DISABLE_TELEMETRY"
_PREPARED = ("onnx.infer", "onnx.quant.pre_process")
"""Metadata that mark a model as prepared, so that ONNX Runtime's quantization does not advise to prepare it."""

_FLOAT, _FLOAT16 = 1, 10
"""The two element types in ONNX's TensorProto."""

_loaded = "onnxruntime" in sys.modules
_chosen = _VARIABLE in os.environ
os.environ.setdefault(_VARIABLE, "1")

import onnxruntime  # noqa: E402 (reads the variable on import)

ort: Any = onnxruntime
CUDA = "CUDAExecutionProvider"
"""ONNX Runtime's name of the GPUs of NVIDIA."""

if _loaded and not _chosen and hasattr(ort, "disable_telemetry_events"):
    ort.disable_telemetry_events()


def has_cuda() -> bool:
    """Return whether ONNX Runtime supports CUDA. A missing GPU is detected when a graph is compiled."""
    return CUDA in ort.get_available_providers()


def silent_options() -> Any:
    """Return the options of a session that logs nothing."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


@cache
def saturates() -> bool:
    """Return whether ONNX Runtime saturates sums of products of bytes here: see libraries.onnx.byte_product."""
    model, x, want = byte_product()
    session = ort.InferenceSession(model.SerializeToString(), silent_options(), providers=["CPUExecutionProvider"])
    return float(session.run(None, {"x": x})[0].item()) != want


def to_float16(model: Any, blocked: Sequence[str], nodes: Sequence[str], keep_io: bool) -> Any:
    """Return an ONNX model with its float32 weights and operators in float16.

    blocked: types of operators that stay in float32, besides those that ONNX Runtime's converter leaves
    (onnxruntime/transformers/float16.py). nodes: names of nodes that stay in float32. keep_io: whether inputs and
    outputs stay in float32. A value that one of these operators computes, or an input, is not rounded to float16
    for another one of them.
    """
    from onnxruntime.transformers import float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights below the smallest number of float16, which become 0
        converted = OnnxModel(
            float16.convert_float_to_float16(
                model,
                keep_io_types=keep_io,
                op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, *blocked],
                node_block_list=[*nodes],
            )
        )
    _join_casts(converted.model.graph)
    converted.topological_sort()  # the converter puts its casts last
    return converted.model


def _join_casts(graph: Any) -> None:
    """Remove casts from float32 to float16 and back, which the converter adds between operators in float32."""
    casts = [n for n in graph.node if n.op_type == "Cast"]
    halves = {n.output[0]: n for n in casts if n.attribute[0].i == _FLOAT16}
    fixed = {v.name for v in (*graph.input, *graph.output)}
    floats = {v.name for v in (*graph.input, *graph.value_info) if v.type.tensor_type.elem_type == _FLOAT}
    renamed: dict[str, str] = {}
    for n in casts:
        if n.attribute[0].i == _FLOAT and n.input[0] in halves:
            source, result = halves[n.input[0]].input[0], n.output[0]
            n.input[0] = source
            if source in floats and result not in fixed:
                renamed[result] = source
                graph.node.remove(n)
            elif source in floats and source not in fixed and source not in renamed:
                renamed[source] = result
                graph.node.remove(n)
    for n in graph.node:
        for names in (n.input, n.output):
            for _ in range(2):  # a new name may have been renamed, too
                names[:] = [renamed.get(x, x) for x in names]
    used = {name for n in graph.node for name in n.input} | fixed
    for result, n in halves.items():
        if result not in used:
            graph.node.remove(n)


def to_int8(
    model: Any,
    sets: Iterable[Mapping[str, Array]],
    nodes: Sequence[str],
    between: Sequence[str] | None = None,
    *,
    reduce_range: bool,
) -> Any:
    """Return an ONNX model in which some convolutions and matrix products compute in int8.

    nodes: their names. Their weights become int8 with a scale per output channel; each of their inputs gets a
    QuantizeLinear and a DequantizeLinear (uint8), with the range that the values have for `sets`, inputs by name.
    All other operators stay in float32, and those that no quantized node depends on are not run. Exceptions of
    `sets` are passed on.

    between: names of operators that compute in int8 where they lie before one of `nodes`. Then the outputs of
    convolutions are quantized too. ONNX Runtime needs both to stay in int8 from one convolution to the next. None
    for a runtime that finds out itself.

    reduce_range: whether the weights have 7 bits.
    """
    from onnxruntime import quantization

    class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]  # the package has no types
        def __init__(self) -> None:
            self.sets = iter(sets)

        def get_next(self) -> dict[str, Array] | None:
            inputs = next(self.sets, None)
            return None if inputs is None else dict(inputs)

    first, rest = split_after(model, nodes)
    for key in _PREPARED:
        first.metadata_props.add(key=key, value="onnxruntime.quant")
    plain = (
        {"Gemm", "MatMul"} if between is not None else {n.op_type for n in first.graph.node if n.name in {*nodes}}
    )
    inner = {*(between or ())} & {n.name for n in first.graph.node}
    with tempfile.TemporaryDirectory() as folder:
        quantization.quantize_static(
            first,
            Path(folder) / "int8.onnx",
            Calibration(),
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_quantize=[*nodes, *sorted(inner)],
            extra_options={"OpTypesToExcludeOutputQuantization": sorted(plain)},
        )
        quantized = joined(quantization.quant_utils.onnx.load(Path(folder) / "int8.onnx"), rest)
    quantized.producer_name, quantized.producer_version = model.producer_name, model.producer_version
    for prop in [p for p in quantized.metadata_props if p.key in _PREPARED]:
        quantized.metadata_props.remove(prop)
    return quantized
