"""Call ONNX Runtime directly.

spec: forms {name: .onnx}, inputs (.npz), order (the input names in the model's order), outputs (the output names
in the model's order), threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks.runners import Loaded, read_inputs


def load(spec: dict[str, Any]) -> Loaded:
    """Create a session for each form, and offer two calls: run(), and with bound inputs and outputs."""
    inputs = read_inputs(spec["inputs"])
    calls: dict[str, Callable[[], Any]] = {}
    fetch: dict[str, Callable[[], list[np.ndarray]]] = {}
    for form, path in spec["forms"].items():
        options = ort.SessionOptions()
        options.intra_op_num_threads = spec["threads"]
        options.log_severity_level = 3
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        feed = {name: inputs[key] for name, key in zip(names, spec["order"])}
        calls[form] = lambda session=session, feed=feed: session.run(None, feed)
        fetch[form] = calls[form]
        binding, results = _bound(session, feed)
        calls[f"{form}, bound"] = lambda session=session, binding=binding: session.run_with_iobinding(binding)
        fetch[f"{form}, bound"] = lambda call=calls[f"{form}, bound"], results=results: (call(), results)[1]
    return Loaded(calls, lambda form: dict(zip(spec["outputs"], fetch[form]())), {"version": ort.__version__})


def _bound(session: Any, feed: dict[str, np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    binding = session.io_binding()
    held = [ort.OrtValue.ortvalue_from_numpy(array) for array in feed.values()]
    for name, value in zip(feed, held):
        binding.bind_ortvalue_input(name, value)
    results = [np.empty_like(array) for array in session.run(None, feed)]
    for output, array in zip(session.get_outputs(), results):
        value = ort.OrtValue.ortvalue_from_numpy(array)
        held.append(value)
        binding.bind_ortvalue_output(output.name, value)
    binding.held = held if hasattr(binding, "__dict__") else None
    _KEPT.append(held)
    return binding, results


_KEPT: list[Any] = []
"""Bind the values. They live as long as the process."""
