"""Memory of inputs and outputs: who may write to it from call to call, for small and large arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from tests.engine_names import ALL
from tests.threads import in_threads

NET = """
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: 1 dim: {0} }} }} }}
layer {{ name: "k" type: "Input" top: "k" input_param {{ shape {{ dim: 1 dim: {0} }} }} }}
layer {{ name: "y" type: "Eltwise" bottom: "x" bottom: "k" top: "y" }}
layer {{ name: "z" type: "Power" bottom: "x" top: "z" power_param {{ scale: 2 }} }}
"""
SIZES = [16, 6000, 300_000]


@pytest.fixture(params=[(e, n) for e in ALL for n in SIZES], ids=str)
def made(request: Any, tmp_path: Path) -> tuple[anylayer.Model, Any]:
    engine, size = request.param
    (tmp_path / "n.prototxt").write_text(NET.format(size))

    def noise(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((1, size), np.float32)

    return anylayer.read(tmp_path / "n.prototxt").compile(engine=engine), noise


def check(got: dict[str, np.ndarray], x: np.ndarray, k: np.ndarray) -> None:
    assert np.array_equal(got["y"], x + k)
    assert np.array_equal(got["z"], x * 2)


def test_results_of_earlier_calls_do_not_change(made: Any) -> None:
    model, noise = made
    results = []
    for seed in range(6):
        x, k = noise(seed), noise(seed + 100)
        results.append((model({"x": x, "k": k}), x, k))
    for got, x, k in results:
        check(got, x, k)
    results[0][0]["y"].fill(0)
    check(model({"x": x, "k": k}), x, k)


def test_inputs_may_be_changed_in_place_or_replaced(made: Any) -> None:
    model, noise = made
    x, k = noise(1), noise(2)
    out = {"y": np.empty_like(x), "z": np.empty_like(x)}
    for seed in range(8):
        if seed % 3:
            x[...] = noise(seed)
        else:
            x = noise(seed)
        buffers = out if seed % 2 else None
        check(model({"x": x, "k": k}, buffers), x, k)


def test_inputs_are_not_written_to(made: Any) -> None:
    model, noise = made
    x, k = noise(1), noise(2)
    x.setflags(write=False)
    for _ in range(3):
        check(model({"x": x, "k": k}), x, k)
    assert np.array_equal(x, noise(1))
    assert not x.flags.writeable


def test_one_array_may_be_two_inputs(made: Any) -> None:
    model, noise = made
    x = noise(1)
    for _ in range(2):
        check(model({"x": x, "k": x}), x, x)


def test_each_call_may_have_other_buffers_for_some_outputs(made: Any) -> None:
    model, noise = made
    x, k = noise(1), noise(2)
    pair = {"y": np.empty_like(x), "z": np.empty_like(x)}
    kept: list[dict[str, np.ndarray]] = []
    for names in ("y", "yz", "", "z", "z", "yz", "y"):
        fresh = {name: np.full_like(x, np.nan) for name in names}
        for out in (fresh, {name: pair[name] for name in names}):
            got = model({"x": x, "k": k}, out=out)
            check(got, x, k)
            assert all(got[name] is out[name] for name in names)
            kept.append(
                {name: array for name, array in got.items() if name not in pair or array is not pair[name]}
            )
    for results in kept:
        for name, array in results.items():
            assert np.array_equal(array, x + k if name == "y" else x * 2)


def test_buffer_is_written_only_in_the_call_that_passes_it(made: Any) -> None:
    model, noise = made
    x, k = noise(1), noise(2)
    out = {"y": np.empty_like(x), "z": np.empty_like(x)}
    model({"x": x, "k": k}, out)
    before = {name: array.copy() for name, array in out.items()}
    model({"x": k, "k": k})
    model({"x": k, "k": k}, {"z": np.empty_like(x)})
    assert all(np.array_equal(out[name], before[name]) for name in out)


def test_threads_have_their_own_buffers(made: Any) -> None:
    model, noise = made
    wrong: list[int] = []

    def work(seed: int) -> None:
        x, k = noise(seed), noise(seed + 100)
        out = {"y": np.empty_like(x), "z": np.empty_like(x)}
        for turn in range(10):
            got = model({"x": x, "k": k}, out if turn % 2 else None)
            if not (np.array_equal(got["y"], x + k) and np.array_equal(got["z"], x * 2)):
                wrong.append(seed)

    in_threads(work, range(4))
    assert wrong == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("engine", ALL)
def test_outputs_that_are_the_same_value_or_an_input(tmp_path: Path, engine: str, size: int) -> None:
    (tmp_path / "n.prototxt").write_text(
        f'layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: 1 dim: {size} }} }} }}'
        'layer { name: "y" type: "ReLU" bottom: "x" top: "y" }'
        'layer { name: "d" type: "Dropout" bottom: "y" top: "d" }'
        'layer { name: "e" type: "Dropout" bottom: "x" top: "e" }'
    )
    model = anylayer.read(tmp_path / "n.prototxt").compile(engine=engine, outputs=["y", "d", "e"])
    want = {"y": lambda x: np.maximum(x, 0), "d": lambda x: np.maximum(x, 0), "e": lambda x: x}
    buffers = {name: np.empty((1, size), np.float32) for name in want}
    for seed, out in enumerate((None, buffers, {"d": np.empty((1, size), np.float32)}, buffers, None)):
        x = np.random.default_rng(seed).standard_normal((1, size), np.float32)
        got = model(x, out)
        assert all(np.array_equal(got[name], value(x)) for name, value in want.items())
        got["y"][...] = 7
        assert np.array_equal(got["d"], want["d"](x))
        got["e"][...] = 7
        assert not np.array_equal(x, got["e"])


def test_large_weights_are_read_from_numpys_memory(tmp_path: Path, monkeypatch: Any) -> None:
    """Weights are neither written to a file for ONNX Runtime nor to the model. They may be read-only and
    unaligned."""
    from anylayer.engines import onnxruntime as engine

    (tmp_path / "n.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 64 dim: 9 dim: 9 } } }'
        'layer { name: "c" type: "Convolution" bottom: "x" top: "c" '
        "convolution_param { num_output: 64 kernel_size: 3 bias_term: false } }"
        'layer { name: "f" type: "InnerProduct" bottom: "c" top: "f" inner_product_param { num_output: 8 } }'
        'layer { name: "s" type: "Bias" bottom: "c" top: "s" bias_param { axis: 1 num_axes: 3 } }'
    )
    net = anylayer.read(tmp_path / "n.prototxt")
    noise = np.random.default_rng(0)
    for node, shapes in zip(net.network.nodes, ([(64, 64, 3, 3)], [(8, 3136), (8,)], [(64, 7, 7)])):
        node.blobs = [_unaligned(noise.standard_normal(shape, np.float32)) for shape in shapes]
    written: list[int] = []
    session = engine.ort.InferenceSession

    def spy(path: str, *args: Any, **options: Any) -> Any:
        written.append(sum(file.stat().st_size for file in Path(path).parent.iterdir()))
        return session(path, *args, **options)

    monkeypatch.setattr(engine.ort, "InferenceSession", spy)
    model = net.compile(engine="onnxruntime")
    assert written == [n for n in written if n < 20_000]
    assert len(written) == 1
    x = noise.standard_normal((1, 64, 9, 9), np.float32)
    got, want = model(x), net.compile(engine="numpy")(x)
    for name, array in want.items():
        assert np.abs(got[name] - array).max() <= 1e-5 * np.abs(array).max()


def _unaligned(array: np.ndarray) -> np.ndarray:
    memory = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:]
    moved = memory.view(np.float32).reshape(array.shape)
    assert not moved.flags.writeable
    return moved
