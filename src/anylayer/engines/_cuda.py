"""ONNX Runtime on a GPU of NVIDIA's, through its CUDA provider. It has been tested with stand-ins only."""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.corrections import corrected
from anylayer.engines._outputs import need_shapes, output_shapes
from anylayer.errors import EngineError
from anylayer.graph import Graph
from anylayer.libraries.onnxruntime import ort
from anylayer.network import Array
from anylayer.writers.onnx import to_onnx

PROVIDER = "CUDAExecutionProvider"
_INSTALL = (
    "pip uninstall onnxruntime; pip install 'onnxruntime-gpu[cuda,cudnn]'. Both packages have the same files"
)


def has_cuda() -> bool:
    """Return whether the installed ONNX Runtime is one for CUDA. Whether there is a GPU shows when it compiles."""
    return PROVIDER in ort.get_available_providers()


class CudaProgram:
    """A session of ONNX Runtime on a GPU for one graph. Inputs and outputs are arrays in the CPU's memory.

    Operators that the session places on the CPU are named in a warning. A GPU that cannot be used is an error.
    """

    def __init__(
        self,
        graph: Graph,
        number: int,
        options: Any,
        weights: Callable[[Graph, Path], Any],
        disabled: Callable[[Graph], list[str]],
    ) -> None:
        if not has_cuda():
            raise EngineError(f"engine 'onnxruntime': the installed package is without CUDA: {_INSTALL}")
        ort.preload_dlls()
        graph = corrected(graph, "onnxruntime").graph
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        providers = [(PROVIDER, {"device_id": number}), "CPUExecutionProvider"]
        try:
            with tempfile.TemporaryDirectory(prefix="anylayer-") as name:
                folder = Path(name)
                filed = weights(graph, folder)
                (folder / filed.FILE).write_bytes(b"")
                (folder / "model.onnx").write_bytes(to_onnx(graph, external=filed).SerializeToString())
                self._session = ort.InferenceSession(
                    str(folder / "model.onnx"),
                    options,
                    providers=providers,
                    disabled_optimizers=disabled(graph),
                )
        except Exception as error:
            raise EngineError(
                f"engine 'onnxruntime' refuses the graph on device 'cuda:{number}': {error}"
            ) from error
        if PROVIDER not in self._session.get_providers():  # it goes on without it
            raise EngineError(
                f"engine 'onnxruntime' cannot use device 'cuda:{number}'. nvidia-smi shows whether there is one, "
                "and its driver; CUDA and cuDNN come with onnxruntime-gpu[cuda,cudnn]"
            )
        _warn_of_cpu(self._session)
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = [o.name for o in self._session.get_outputs()]
        self._shapes = output_shapes(graph.outputs)
        self._lock = threading.Lock()

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        try:
            with self._lock:
                results: list[Array] = self._session.run(self._outputs, dict(zip(self._inputs, inputs)))
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' stops: {error}") from error
        need_shapes("onnxruntime", results, self._shapes)
        for i, buffer in enumerate(out or ()):
            if buffer is not None:
                np.copyto(buffer, results[i])
                results[i] = buffer
        return results


def _warn_of_cpu(session: Any) -> None:
    """Warn of the operators that a session has placed on the CPU."""
    parts = [part for part in session.get_provider_graph_assignment_info() if part.ep_name != PROVIDER]
    nodes = [node for part in parts for node in part.get_nodes()]
    if nodes:
        counts = Counter(node.op_type for node in nodes)
        listed = ", ".join(f"{op} ({count})" for op, count in counts.most_common(8))
        warnings.warn(f"engine 'onnxruntime' runs operators on the CPU, not on the GPU: {listed}", stacklevel=2)
