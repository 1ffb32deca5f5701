"""ONNX Runtime on an NVIDIA GPU, through its CUDA provider. It has only been tested with mocks of the runtime."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.corrections import corrected
from anylayer.engines._common import need_shapes, output_shapes
from anylayer.errors import EngineError, warn
from anylayer.graph import Graph
from anylayer.libraries.onnxruntime import CUDA, has_cuda, ort
from anylayer.network import Array
from anylayer.writers._onnx_half import to_half
from anylayer.writers._onnx_model import to_onnx

_INSTALL = (
    "pip uninstall onnxruntime; pip install 'onnxruntime-gpu[cuda,cudnn]'. Both packages have the same files"
)


class CudaProgram:
    """A session of ONNX Runtime on a GPU for one graph.

    Inputs and outputs are arrays in the CPU's memory, except those outputs that `keep` names: they stay in the
    GPU's memory, and the next program takes them from there. Operators that the session places on the CPU are
    named in a warning. A GPU that cannot be used is an error.
    """

    def __init__(
        self,
        graph: Graph,
        number: int,
        options: Any,
        precision: str,
        weights: Callable[[Graph, Path], Any],
        disabled: Callable[[Graph], list[str]],
    ) -> None:
        if not has_cuda():
            raise EngineError(f"engine 'onnxruntime': the installed package is without CUDA: {_INSTALL}")
        ort.preload_dlls()
        graph = corrected(graph, "onnxruntime").graph
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        # TF32, which NVIDIA's GPUs use for float32 by default, keeps 10 bits of the inputs' mantissas.
        providers = [(CUDA, {"device_id": number, "use_tf32": 0}), "CPUExecutionProvider"]
        try:
            with tempfile.TemporaryDirectory(prefix="anylayer-") as name:
                self._session = ort.InferenceSession(
                    _file(graph, precision, Path(name), weights),
                    options,
                    providers=providers,
                    disabled_optimizers=disabled(graph),
                )
        except EngineError:
            raise
        except Exception as error:
            raise EngineError(
                f"engine 'onnxruntime' refuses the graph on device 'cuda:{number}': {error}"
            ) from error
        if CUDA not in self._session.get_providers():  # the session continues on the CPU
            raise EngineError(
                f"engine 'onnxruntime' cannot use device 'cuda:{number}'. Run nvidia-smi to check the GPU "
                "and its driver; CUDA and cuDNN come with onnxruntime-gpu[cuda,cudnn]"
            )
        _warn_of_cpu(self._session)
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = [o.name for o in self._session.get_outputs()]
        self._shapes = output_shapes(graph.outputs)
        self._number = number
        self._kept: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    def keep(self, outputs: Collection[int]) -> None:
        """Leave these outputs, by index, in the GPU's memory: see engines.KeepsOutputs."""
        self._kept = frozenset(outputs)

    def __call__(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Any]:
        try:
            with self._lock:
                results = self._run(inputs)
        except Exception as error:
            raise EngineError(f"engine 'onnxruntime' failed: {error}") from error
        need_shapes("onnxruntime", results, self._shapes)
        for i, buffer in enumerate(out or ()):
            if buffer is not None and i not in self._kept:
                np.copyto(buffer, results[i])
                results[i] = buffer
        return results

    def _run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the session on arrays and values of the GPU. Return an array or a KeptOutput per output."""
        binding = self._session.io_binding()
        for name, array in zip(self._inputs, inputs):
            if isinstance(array, KeptOutput):
                binding.bind_ortvalue_input(name, array.value)
            else:
                binding.bind_cpu_input(name, np.asarray(array, order="C"))
        for i, name in enumerate(self._outputs):
            binding.bind_output(name, *(("cuda", self._number) if i in self._kept else ()))
        binding.synchronize_inputs()
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        values = binding.get_outputs()
        return [KeptOutput(v) if i in self._kept else v.numpy() for i, v in enumerate(values)]


class KeptOutput:
    """An output of a program in the GPU's memory, which only other programs on this GPU read."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.shape = tuple(value.shape())


def _file(graph: Graph, precision: str, folder: Path, weights: Callable[[Graph, Path], Any]) -> str:
    """Write the model of a graph, and return its path. `weights` puts large ones into a file of their own."""
    path = folder / "model.onnx"
    if precision == "float16":
        model = to_half(graph)
    else:
        filed = weights(graph, folder)
        (folder / filed.FILE).write_bytes(b"")
        model = to_onnx(graph, external=filed)
    path.write_bytes(model.SerializeToString())
    return str(path)


def _warn_of_cpu(session: Any) -> None:
    """Warn about the operators that a session has placed on the CPU."""
    parts = [part for part in session.get_provider_graph_assignment_info() if part.ep_name != CUDA]
    nodes = [node for part in parts for node in part.get_nodes()]
    if nodes:
        counts = Counter(node.op_type for node in nodes)
        listed = ", ".join(f"{op} ({count})" for op, count in counts.most_common(8))
        warn(f"engine 'onnxruntime' runs operators on the CPU, not on the GPU: {listed}", stacklevel=2)
