"""ONNX Runtime, with its telemetry switched off. This is the only file that imports it.

ONNX Runtime 1.31 queues the names of the machine, of graphs and of nodes, and sends them to its vendor. It reads
`ORT_DISABLE_TELEMETRY` once, while it is imported. A value that the user has set is left as it is.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_VARIABLE = "ORT_DISABLE_TELEMETRY"

_loaded = "onnxruntime" in sys.modules
_chosen = _VARIABLE in os.environ
os.environ.setdefault(_VARIABLE, "1")

import onnxruntime  # noqa: E402

ort: Any = onnxruntime

if _loaded and not _chosen and hasattr(ort, "disable_telemetry_events"):
    ort.disable_telemetry_events()
