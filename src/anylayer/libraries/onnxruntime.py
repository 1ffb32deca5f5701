"""ONNX Runtime, with its telemetry switched off. This is the only file that imports it.

ONNX Runtime 1.31 queues the names of the machine, of graphs and of nodes, and sends them to its vendor. It reads
`ORT_DISABLE_TELEMETRY` once, while it is imported. A value that the user has set is left as it is.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

_VARIABLE = "ORT_DISABLE_TELEMETRY"

_loaded = "onnxruntime" in sys.modules
_chosen = _VARIABLE in os.environ
os.environ.setdefault(_VARIABLE, "1")

import onnxruntime  # noqa: E402 (reads the variable on import)

ort: Any = onnxruntime

if _loaded and not _chosen and hasattr(ort, "disable_telemetry_events"):
    ort.disable_telemetry_events()


def to_float16(model: Any, blocked: Sequence[str]) -> Any:
    """Return an ONNX model with its float32 weights and operators in float16. Inputs and outputs stay as they are.

    blocked: types of operators that stay in float32, besides those that ONNX Runtime's converter leaves
    (onnxruntime/transformers/float16.py).
    """
    from onnxruntime.transformers import float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights below the smallest number of float16, which become 0
        converted = OnnxModel(
            float16.convert_float_to_float16(
                model, keep_io_types=True, op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, *blocked]
            )
        )
    converted.topological_sort()  # the converter puts its casts last
    return converted.model
