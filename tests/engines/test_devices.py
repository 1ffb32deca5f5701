"""Engines on GPUs: how they are chosen and refused. There is no GPU here, so the runtimes are mocks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer
from anylayer.engines import _cuda, installed, on_device
from anylayer.errors import EngineError, InputError
from anylayer.libraries.onnxruntime import has_cuda

NET = """ input: "data" input_shape { dim: 1 dim: 2 dim: 6 dim: 6 } layer { name: "conv" type: "Convolution"
bottom: "data" top: "conv" convolution_param { num_output: 3 kernel_size: 3 } } layer { name: "relu" type: "ReLU"
bottom: "conv" top: "relu" }
"""
X = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    (tmp_path / "net.prototxt").write_text(NET)
    return anylayer.read(tmp_path / "net.prototxt").fill()


class Binding:
    """A mock of a binding: what is bound to a GPU is bound to the CPU, and added to `kept`."""

    def __init__(self, real: Any, kept: list[str]) -> None:
        self.real, self.kept = real, kept

    def bind_output(self, name: str, device: str = "cpu", number: int = 0) -> None:
        if device == "cuda":
            self.kept.append(f"{name} on {number}")
        self.real.bind_output(name)

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self.kept.append(f"{name} from the GPU")
        self.real.bind_ortvalue_input(name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Cuda:
    """A mock of onnxruntime-gpu: sessions compute on the CPU, and claim to be on a GPU."""

    def __init__(self, *, works: bool = True, on_cpu: tuple[str, ...] = ()) -> None:
        self.works, self.on_cpu = works, on_cpu
        self.preloaded = 0
        self.providers: list[Any] = []
        self.kept: list[str] = []
        self.models: list[onnx.ModelProto] = []

    def get_available_providers(self) -> list[str]:
        return [_cuda.CUDA, "CPUExecutionProvider"]

    def preload_dlls(self) -> None:
        self.preloaded += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)

    def InferenceSession(self, path: str, options: Any, providers: Any, **more: Any) -> Any:
        self.providers.append(providers)
        self.models.append(onnx.load(path, load_external_data=False))
        real = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"], **more)
        nodes = [SimpleNamespace(op_type=op, name=op) for op in self.on_cpu]
        parts = [SimpleNamespace(ep_name="CPUExecutionProvider", get_nodes=lambda: nodes)] if nodes else []
        return SimpleNamespace(
            io_binding=lambda: Binding(real.io_binding(), self.kept),
            run_with_iobinding=lambda binding: real.run_with_iobinding(binding.real),
            get_inputs=real.get_inputs,
            get_outputs=real.get_outputs,
            get_providers=lambda: [_cuda.CUDA] if self.works else ["CPUExecutionProvider"],
            get_provider_graph_assignment_info=lambda: parts,
        )


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    one = Cuda()
    monkeypatch.setattr(_cuda, "ort", one)
    monkeypatch.setattr(onnxruntime, "get_available_providers", one.get_available_providers)
    return one


def test_cuda_gets_the_graph_and_the_number(net: anylayer.Net, cuda: Cuda) -> None:
    model = net.compile("onnxruntime", device="cuda:1")
    assert model.engine == "onnxruntime@cuda:1"
    assert cuda.preloaded >= 1
    assert cuda.providers[-1] == [(_cuda.CUDA, {"device_id": 1, "use_tf32": 0}), "CPUExecutionProvider"]
    want = net.compile("numpy")(X)["relu"]
    np.testing.assert_allclose(model(X)["relu"], want, rtol=1e-4, atol=1e-5)
    out = {"relu": np.empty_like(want)}
    assert model(X, out)["relu"] is out["relu"]
    np.testing.assert_allclose(out["relu"], want, rtol=1e-4, atol=1e-5)


def test_half_precision_computes_in_float16(net: anylayer.Net, cuda: Cuda) -> None:
    model = net.compile("onnxruntime", device="cuda", precision="float16")
    weights = {one.data_type for one in cuda.models[-1].graph.initializer if len(one.dims) == 4}
    assert weights == {onnx.TensorProto.FLOAT16}
    want = net.compile("numpy")(X)["relu"]
    found = model(X)["relu"]
    assert found.dtype == np.float32 and not np.array_equal(found, want)
    np.testing.assert_allclose(found, want, atol=5e-3 * np.abs(want).max())


def test_weight_beyond_float16_is_refused(net: anylayer.Net, cuda: Cuda) -> None:
    net.network.nodes[0].blobs[0][0, 0, 0, 0] = 7e4
    with pytest.raises(EngineError, match="a weight exceeds 65504, the largest number of float16"):
        net.compile("onnxruntime", device="cuda", precision="float16")


def test_half_precision_needs_a_device(net: anylayer.Net) -> None:
    with pytest.raises(EngineError, match="engine 'onnxruntime' computes in float32, got 'float16'"):
        net.compile("onnxruntime", precision="float16")


def test_values_between_graphs_stay_on_the_gpu(tmp_path: Path, cuda: Cuda) -> None:
    """The output "conv" is read by a graph and by a layer in Python, "relu" by a later graph only."""

    class Sorted:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [np.array(sorted(inputs[0].ravel().tolist()), np.float32).reshape(inputs[0].shape)]

    text = (
        NET
        + """layer { name: "mine" type: "Sorted" bottom: "conv" top: "mine" }
    layer { name: "sum" type: "Eltwise" bottom: "mine" bottom: "relu" top: "sum" }"""
    )
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Sorted", Sorted)]).fill()
    with pytest.warns(UserWarning, match="layer 'mine'"):
        model = net.compile("onnxruntime", device="cuda:1")
    want = net.compile("numpy")
    for x in (X, X + 1, X):
        cuda.kept.clear()
        np.testing.assert_allclose(model(x)["sum"], want(x)["sum"], rtol=1e-4, atol=1e-5)
        assert [name.partition(" ")[2] for name in cuda.kept] == ["on 1", "from the GPU"]


def test_session_that_leaves_the_gpu_is_refused(net: anylayer.Net, cuda: Cuda) -> None:
    cuda.works = False
    with pytest.raises(EngineError, match=r"cannot use device 'cuda:0'. Run nvidia-smi"):
        net.compile("onnxruntime", device="cuda")


def test_operators_on_the_cpu_are_named(net: anylayer.Net, cuda: Cuda) -> None:
    cuda.on_cpu = ("Conv", "Relu", "Conv")
    with pytest.warns(UserWarning, match=r"runs operators on the CPU, not on the GPU: Conv \(2\), Relu \(1\)"):
        net.compile("onnxruntime", device="cuda")


def test_package_without_cuda_is_refused(net: anylayer.Net) -> None:
    if has_cuda():
        pytest.skip("ONNX Runtime is installed with CUDA")
    with pytest.raises(EngineError, match=r"the installed package is without CUDA: .*onnxruntime-gpu\[cuda"):
        net.compile("onnxruntime", device="cuda")
    with pytest.raises(EngineError, match=r"no installed engine computes on device 'cuda'"):
        net.compile(device="cuda")


def test_auto_measures_engines_on_devices(net: anylayer.Net, cuda: Cuda) -> None:
    assert "onnxruntime@cuda" in installed() and "onnxruntime" in installed()
    assert "onnxruntime@cuda" in net.compile().timings
    only = net.compile(device="cuda:1")
    assert only.engine == "onnxruntime@cuda:1" and not only.timings
    assert not [name for name in installed("cpu") if "@" in name]
    assert not [name for name in net.compile(device="cpu").timings if "@" in name]


def test_assignment_of_operators_comes_from_onnxruntime(net: anylayer.Net, tmp_path: Path) -> None:
    """The attributes that the mock has are those of the real session."""
    net.write(tmp_path / "net.onnx")
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", options, providers=["CPUExecutionProvider"])
    with pytest.warns(UserWarning, match=r"runs operators on the CPU, not on the GPU: \w+ \(1\)"):
        _cuda._warn_of_cpu(session)


def test_openvino_compiles_for_the_gpu_that_it_finds(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    from anylayer.engines import openvino

    real, asked = openvino.shared_core(), []

    def compile_model(model: Any, device: str, config: dict[str, Any]) -> Any:
        asked.append((device, config))
        return real.compile_model(model, "CPU", config)

    core = SimpleNamespace(
        available_devices=["CPU", "GPU.0", "GPU.1"], compile_model=compile_model, read_model=real.read_model
    )
    monkeypatch.setattr(openvino, "shared_core", lambda: core)
    model = net.compile("openvino", device="GPU:1", threads=2)
    assert model.engine == "openvino@gpu:1" and asked[-1][0] == "GPU.1"
    assert not {"ENABLE_CPU_PINNING", "INFERENCE_NUM_THREADS"} & {*asked[-1][1]}
    np.testing.assert_allclose(model(X)["relu"], net.compile("numpy")(X)["relu"], rtol=1e-4, atol=1e-5)
    with pytest.raises(EngineError, match=r"finds no device 'gpu:2'; it finds CPU, GPU.0, GPU.1"):
        net.compile("openvino", device="gpu:2")


@pytest.mark.parametrize(
    ("engine", "device", "error", "text"),
    [
        ("numpy", "cuda", EngineError, "engine 'numpy' computes on the CPU only, not on 'cuda'"),
        ("onnxruntime", "tpu", EngineError, "engine 'onnxruntime' has no device 'tpu'; its devices: cpu, cuda"),
        ("openvino", "cuda", EngineError, "engine 'openvino' has no device 'cuda'; its devices: cpu, gpu"),
        ("onnxruntime@cuda", "gpu", InputError, "names a device already"),
        ("auto", "tpu", EngineError, "no installed engine computes on device 'tpu'"),
        ("onnxrutime", "cuda", EngineError, "there is no engine 'onnxrutime'; did you mean 'onnxruntime'"),
    ],
)
def test_device_that_does_not_fit_is_refused(
    net: anylayer.Net, engine: str, device: str, error: type[Exception], text: str
) -> None:
    if engine == "openvino":
        pytest.importorskip("openvino", reason="openvino is not installed")
    with pytest.raises(error, match=text):
        net.compile(engine, device=device)


def test_cpu_is_the_device_of_engines_without_one() -> None:
    assert on_device("openvino", "CPU") == "openvino" == on_device("openvino", None)
    assert on_device("auto", "cpu") == "auto@cpu" and on_device("auto", "") == "auto"
