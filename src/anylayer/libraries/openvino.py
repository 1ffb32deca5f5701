"""OpenVINO: the only file that imports it. Whoever imports this file must expect that it is not installed."""

from __future__ import annotations

import threading
from typing import Any

import openvino

ov: Any = openvino
_core: Any = None
_lock = threading.Lock()


def shared_core() -> Any:
    """The process's one openvino.Core."""
    global _core
    with _lock:
        if _core is None:
            _core = ov.Core()
        return _core


def fold_constants(model: Any) -> None:
    """Compute what a model computes of constants alone, in place."""
    from openvino import passes

    manager = passes.Manager()
    manager.register_pass(passes.ConstantFolding())
    manager.run_passes(model)
