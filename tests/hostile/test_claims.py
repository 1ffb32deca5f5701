"""A file of a few lines that claims gigabytes or hours is refused before anything is allocated."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from onnx import helper

from tests.readers.onnx.files import model, value

from .networks import FILLED, SMALL, chain, data, input_, layer
from .trial import Trials

RECURRENT = 'recurrent_param { num_output: %d weight_filler { type: "constant" } }'

CLAIMS = {
    "an input": (
        input_(1, 10**5, 10**5, 10**5) + layer("ReLU"),
        "deploy.prototxt: input 'data' of shape (1, 100000, 100000, 100000) would have 1000000000000000 values; "
        "the limit is 2147483647",
    ),
    "an input of many axes": (
        input_(*[1] * 100) + layer("ReLU"),
        "deploy.prototxt: input 'data' would have 100 axes; the limit is 32",
    ),
    "an input of 63 bits": (
        input_(2**63 - 1, 2**63 - 1) + layer("ReLU"),
        "85070591730234615847396907784232501249",
    ),
    "weights": (
        SMALL + layer("InnerProduct", f"inner_product_param {{ num_output: 2000000000 {FILLED} }}"),
        "blob 0 (weights) of shape (2000000000, 192) would have 384000000000 values; without a weights file the "
        "limit is 268435456",
    ),
    "many weights": (
        input_(1, 2**14) + chain("InnerProduct", 40, f"inner_product_param {{ num_output: 16384 {FILLED} }}"),
        "with it the network needs more than 536870912 weights that no file holds, which is the limit",
    ),
    "a kernel": (
        SMALL + layer("Deconvolution", f"convolution_param {{ num_output: 3 kernel_size: 100000 {FILLED} }}"),
        "blob 0 (weights) of shape (3, 3, 100000, 100000) would have 90000000000 values",
    ),
    "a bilinear kernel": (
        SMALL
        + layer(
            "Deconvolution",
            'convolution_param { num_output: 3 kernel_size: 20001 group: 3 weight_filler { type: "bilinear" } }',
        ),
        "blob 0 (weights) of shape (3, 1, 20001, 20001) would have 1200120003 values",
    ),
    "a table": (
        input_(1, 5) + layer("Embed", f"embed_param {{ num_output: 100000 input_dim: 100000 {FILLED} }}"),
        "blob 0 (weights) of shape (100000, 100000)",
    ),
    "gates": (
        input_(2, 1, 2) + data(2, 1, top="c") + layer("LSTM", RECURRENT % 20000, ["data", "c"]),
        "of shape (80000, 20000) would have 1600000000 values; without a weights file the limit is 268435456",
    ),
    "tiles": (SMALL + layer("Tile", "tile_param { tiles: 1000000000 }"), "tiles=1000000000"),
    "a wide picture": (SMALL + layer("Interp", "interp_param { height: 1000000 width: 1000000 }"), "1000000"),
    "doublings": (
        SMALL + chain("Concat", 60, twice=True),
        "an array of shape (1, 50331648, 8, 8) would have 3221225472 values; the limit is 2147483647",
    ),
    "doublings of a constant": (
        data(1, 3, 8, 8) + chain("Concat", 60, twice=True),
        "its outputs are constant and take",
    ),
    "a constant": (
        data(30000, 30000) + layer("ReLU"),
        "its outputs are constant and take 3.35 GiB; the limit for the constants of all layers is 512 MiB, and "
        "512 MiB are left",
    ),
    "steps again and again": (
        input_(10**6, 1, 2)
        + input_(10**6, 1, name="c")
        + "".join(layer("LSTM", RECURRENT % 2, ["data", "c"], [f"y{i}"], f"l{i}") for i in range(500)),
        "takes more than 30000 operators at these shapes; the limit is 30000 for a layer and 50000 for a "
        "network. Engine 'numpy' has no limit; takes more than 20000 operators at these shapes",
    ),
    "boxes": (
        input_(1, 3, 3000, 3000)
        + layer(
            "PriorBox",
            "prior_box_param { min_size: 3 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 }",
            ["data"] * 2,
        ),
        "boxes",
    ),
    "pyramids": (input_(1, 3, 64, 64) + layer("SPP", "spp_param { pyramid_height: 30 }"), "pyramid_height"),
    "pads": (
        SMALL
        + layer("Convolution", f"convolution_param {{ num_output: 1 kernel_size: 1 pad: 1000000000 {FILLED} }}"),
        "pad",
    ),
    "a shape": (
        SMALL + layer("Reshape", "reshape_param { shape { dim: 9223372036854775807 dim: -1 } }"),
        "9223372036854775807",
    ),
}


@pytest.mark.one_per(lambda claim: CLAIMS[claim][1])
@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_are_refused(claim: str, trials: Trials) -> None:
    text, message = CLAIMS[claim]
    found = trials.run(text, engines=())
    assert found.fine, found
    assert message in found.text
    assert found.peak < 1000, "MiB"


@pytest.mark.parametrize("claim", ["weights", "many weights", "doublings", "doublings of a constant"])
def test_claims_are_not_compiled(claim: str, trials: Trials) -> None:
    text, message = CLAIMS[claim]
    found = trials.run(text, engines=("openvino",))
    assert found.end == "LayerError", found
    assert message in found.text
    assert found.peak < 1000, "MiB"


def test_lrn_size_beyond_the_channels(trials: Trials) -> None:
    text = SMALL + layer("LRN", "lrn_param { local_size: 1000000001 }")
    assert trials.run(text).end == "ok"


@pytest.mark.breadth
def test_too_many_operators_for_an_engine(trials: Trials) -> None:
    text = SMALL + chain("Sigmoid", 3001)
    assert trials.run(text, engines=("openvino",)).text == (
        "deploy.prototxt: engine 'openvino' is not used for graphs of more than 3000 operators, because it would "
        "compile them for minutes; this one has 3001. Use engine 'onnxruntime'"
    )


KERAS = Path(__file__).parents[1] / "data" / "keras" / "old_functions.keras"


def packed_twice(rows: int, columns: int) -> bytes:
    """Return a .keras file with weights of zeros, compressed by HDF5 and again by zip."""
    with zipfile.ZipFile(KERAS) as source:
        parts = {name: source.read(name) for name in source.namelist()}
    held = io.BytesIO(parts["model.weights.h5"])
    with h5py.File(held, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, one: names.append(name) if isinstance(one, h5py.Dataset) else None)
        del file[names[0]]
        chunks = (1024, columns)
        made = file.create_dataset(names[0], shape=(rows, columns), dtype="f4", compression="gzip", chunks=chunks)
        zeros = zlib.compress(bytes(1024 * columns * 4), 9)
        for row in range(0, rows, 1024):
            made.id.write_direct_chunk((row, 0), zeros)
    parts["model.weights.h5"] = held.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for name, data in parts.items():
            target.writestr(name, data)
    return packed.getvalue()


def test_weights_packed_twice_are_refused(trials: Trials) -> None:
    data = packed_twice(1 << 15, 1 << 13)
    assert len(data) < 10_000
    found = trials.run(data, name="m.keras", engines=())
    assert found.text.endswith(
        "'layers/dense/vars/0' unpacks to 1073741824 bytes; the limit for the whole file is 100 times its size"
    )
    assert found.peak < 1000, "MiB"


@pytest.mark.parametrize(
    ("steps", "engine", "text"),
    [
        (2**62, "numpy", "its loop exceeds the limit of 30000 steps"),
        (2**62, "onnxruntime", "its loop exceeds the limit of 30000 steps"),
    ],
)
def test_loop_with_many_iterations_is_refused(trials: Trials, steps: int, engine: str, text: str) -> None:
    found = trials.run(loop(steps), name="m.onnx", engines=(engine,))
    assert found.text.startswith(f"m.onnx: layer 'Loop_0' (Loop): {text}"), found
    assert found.seconds < 2


def test_loop_that_is_too_long_for_single_operators_stays_a_loop(trials: Trials) -> None:
    found = trials.run(loop(20_000), name="m.onnx", engines=("onnxruntime",))
    assert found.end == "ok", found
    assert found.peak < 1000, "MiB"


def loop(steps: int) -> bytes:
    """Return an ONNX model with a loop of this number of steps, each of which computes a sine."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("Sin", ["s"], ["sine"]),
            helper.make_node("Add", ["sine", "s"], ["t"]),
        ],
        "body",
        [value("turn", [], np.int64), value("go", [], bool), value("s", [2, 3])],
        [value("again", [], bool), value("t", [2, 3])],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    return model([node], [value("x", [2, 3])], ["y"], {"n": np.array(steps)}).SerializeToString()
