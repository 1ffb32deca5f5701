"""Engine "tensorrt": how it is chosen and refused. There is no GPU here, so NVIDIA's packages are mocks."""

from __future__ import annotations

import ctypes
import enum
import gc
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer
import anylayer.libraries
from anylayer.engines import installed
from anylayer.errors import EngineError
from tests.engines.test_devices import NET, X


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    (tmp_path / "net.prototxt").write_text(NET)
    return anylayer.read(tmp_path / "net.prototxt").fill()


class Status(enum.IntEnum):
    """Results of CUDA's functions."""

    cudaSuccess = 0
    cudaErrorNoDevice = 100


class Cuda(ModuleType):
    """A mock of CUDA's runtime, whose memory is the CPU's."""

    def __init__(self) -> None:
        super().__init__("cuda.bindings.runtime")
        self.status = Status.cudaSuccess
        self.device = -1
        self.memory: dict[int, np.ndarray] = {}
        self.cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)

    def cudaSetDevice(self, number: int) -> tuple[Status]:
        self.device = number
        return (self.status,)

    def cudaStreamCreate(self) -> tuple[Status, int]:
        return Status.cudaSuccess, 7

    def cudaStreamSynchronize(self, stream: int) -> tuple[Status]:
        return (Status.cudaSuccess,)

    def cudaStreamDestroy(self, stream: int) -> tuple[Status]:
        return (Status.cudaSuccess,)

    def cudaMalloc(self, size: int) -> tuple[Status, int]:
        buffer = np.zeros(size, np.uint8)
        self.memory[buffer.ctypes.data] = buffer
        return Status.cudaSuccess, buffer.ctypes.data

    def cudaFree(self, address: int) -> tuple[Status]:
        del self.memory[address]
        return (Status.cudaSuccess,)

    def cudaMemcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> tuple[Status]:
        device = to if kind == 1 else source
        assert size <= self.memory[device].nbytes and stream == 7
        ctypes.memmove(to, source, size)
        return (Status.cudaSuccess,)


class TensorRt(ModuleType):
    """A mock of TensorRT, which computes with ONNX Runtime."""

    def __init__(self, memory: dict[int, np.ndarray]) -> None:
        super().__init__("tensorrt")
        self.__spec__ = ModuleSpec("tensorrt", None)
        self.memory = memory
        self.error = ""
        self.flags: list[object] = []
        self.models: list[onnx.ModelProto] = []
        self.widened = False
        self.ILogger = type(
            "ILogger",
            (),
            {"Severity": SimpleNamespace(INTERNAL_ERROR=0, ERROR=1), "__init__": lambda self: None},
        )
        self.NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=1)
        self.BuilderFlag = SimpleNamespace(TF32="tf32")

    def Builder(self, log: Any) -> Any:
        return SimpleNamespace(
            create_network=lambda flags: SimpleNamespace(flags=flags),
            create_builder_config=lambda: SimpleNamespace(clear_flag=self.flags.append),
            build_serialized_network=lambda network, config: self.models[-1].SerializeToString(),
        )

    def OnnxParser(self, network: Any, log: Any) -> Any:
        def parse(model: bytes) -> bool:
            self.models.append(onnx.load_from_string(model))
            log.log(2, "a message that is no error")
            return not self.error

        errors = [SimpleNamespace(desc=lambda: self.error)]
        return SimpleNamespace(parse=parse, num_errors=bool(self.error) * 1, get_error=lambda i: errors[i])

    def Runtime(self, log: Any) -> Any:
        return SimpleNamespace(deserialize_cuda_engine=lambda plan: Engine(self, plan))

    def nptype(self, dtype: np.dtype[Any]) -> type:
        return np.float64 if self.widened else dtype.type


class Engine:
    """A mock of an engine, and for its context."""

    def __init__(self, owner: TensorRt, plan: bytes) -> None:
        self.session = onnxruntime.InferenceSession(plan, providers=["CPUExecutionProvider"])
        self.memory, self.addresses = owner.memory, dict[str, int]()
        ports = [*self.session.get_inputs(), *self.session.get_outputs()]
        self.shapes = {port.name: tuple(port.shape) for port in ports}
        self.get_tensor_shape = self.shapes.__getitem__
        self.set_tensor_address = self.addresses.__setitem__

    def create_execution_context(self) -> Engine:
        return self

    def get_tensor_dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def execute_async_v3(self, stream: int) -> bool:
        buffers = {name: self.memory[at].view(np.float32) for name, at in self.addresses.items()}
        names = [port.name for port in self.session.get_inputs()]
        found = self.session.run(None, {n: buffers[n].reshape(self.shapes[n]) for n in names})
        for port, array in zip(self.session.get_outputs(), found):
            buffers[port.name][:] = array.ravel()
        return True


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    one = Cuda()
    monkeypatch.setitem(sys.modules, "tensorrt", TensorRt(one.memory))
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["cuda.bindings"], "runtime", one, raising=False)
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", one)
    monkeypatch.delitem(sys.modules, "anylayer.libraries.tensorrt", raising=False)
    monkeypatch.delattr(anylayer.libraries, "tensorrt", raising=False)
    return one


@pytest.fixture
def trt(cuda: Cuda) -> Any:
    return sys.modules["tensorrt"]


def test_results_are_those_of_numpy(net: anylayer.Net, cuda: Cuda, trt: Any) -> None:
    model = net.compile("tensorrt", device="cuda:1")
    assert model.engine == "tensorrt@cuda:1" and cuda.device == 1 and trt.flags == ["tf32"]
    want = net.compile("numpy")
    for x in (X, X - 1):
        np.testing.assert_allclose(model(x)["relu"], want(x)["relu"], rtol=1e-4, atol=1e-5)
    out = {"relu": np.empty_like(want(X)["relu"])}
    assert model(X, out)["relu"] is out["relu"]
    np.testing.assert_allclose(out["relu"], want(X)["relu"], rtol=1e-4, atol=1e-5)
    assert net.compile("tensorrt").engine == "tensorrt"


def test_memory_of_the_gpu_is_freed(net: anylayer.Net, cuda: Cuda, trt: Any) -> None:
    model = net.compile("tensorrt")
    assert sorted(len(buffer) for buffer in cuda.memory.values()) == [3 * 4 * 4 * 4, X.nbytes]
    del model
    gc.collect()
    assert not cuda.memory


def test_half_precision_computes_in_float16(net: anylayer.Net, trt: Any) -> None:
    found = net.compile("tensorrt", precision="float16")(X)["relu"]
    assert {one.data_type for one in trt.models[-1].graph.initializer if len(one.dims) == 4} == {10}
    want = net.compile("numpy")(X)["relu"]
    assert found.dtype == np.float32 and not np.array_equal(found, want)
    np.testing.assert_allclose(found, want, atol=5e-3 * np.abs(want).max())


def test_auto_measures_tensorrt_on_gpus_only(net: anylayer.Net, trt: Any) -> None:
    assert "tensorrt@cuda" in installed() and "tensorrt" not in installed()
    assert net.compile(device="cuda").engine == "tensorrt@cuda"
    assert not [name for name in net.compile(device="cpu").timings if name.startswith("tensorrt")]


def test_refusal_of_tensorrt_is_reported(net: anylayer.Net, cuda: Cuda, trt: Any) -> None:
    trt.error = "No importer registered for op: Mystery"
    with pytest.raises(EngineError, match="TensorRT refuses the graph: No importer registered for op: Mystery"):
        net.compile("tensorrt")
    trt.error, trt.widened = "", True
    with pytest.raises(EngineError, match=r"computes 'data' as float64.*, expected float32"):
        net.compile("tensorrt")
    trt.widened = False
    with pytest.warns(UserWarning, match="engine 'tensorrt' computes fixed sizes only"):
        model = net.compile("tensorrt", shapes={"data": (1, 2, "H", "W")})
    assert model(X)["relu"].shape == (1, 3, 4, 4)
    with pytest.raises(EngineError, match="engine 'tensorrt' computes on GPUs only, not on the CPU"):
        net.compile("tensorrt", device="cpu")
    cuda.status = Status.cudaErrorNoDevice
    with pytest.raises(EngineError, match=r"cannot use device 'cuda:0': cudaSetDevice of CUDA reports cuda"):
        net.compile("tensorrt")


def test_missing_packages_are_named(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    monkeypatch.delitem(sys.modules, "anylayer.libraries.tensorrt", raising=False)
    monkeypatch.delattr(anylayer.libraries, "tensorrt", raising=False)
    with pytest.raises(EngineError, match="engine 'tensorrt' needs: pip install tensorrt cuda-bindings"):
        net.compile("tensorrt")


def test_functions_of_cuda_exist() -> None:
    """The functions that the mock has are those of NVIDIA's package."""
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings is not installed")
    for name in vars(Cuda):
        assert not name.startswith("cuda") or callable(getattr(runtime, name))
