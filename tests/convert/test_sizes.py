"""Files with open sizes: written once, right at sizes that were not traced."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import anylayer
from anylayer.errors import AnyLayerError, InputError
from anylayer.network import shapes_wording
from anylayer.tracing import checked
from tests.readers.onnx.files import model, value

PROTOTXT = """
name: "open"
input: "data" input_shape { dim: 1 dim: 2 dim: 20 dim: 24 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "mine" type: "Mine" bottom: "pool" bottom: "data" top: "out" }
"""


class Stretch:
    """Repeat the first input to the size of the second, and add a ramp over the rows."""

    def __init__(self, params: Any, blobs: Any) -> None: ...

    def getMemoryShapes(self, inputs: Any) -> Any:
        (n, c, _, _), (_, _, h, w) = inputs
        return [[n, c, h, w]]

    def forward(self, inputs: Any) -> Any:
        x, like = inputs
        h, w = like.shape[2:]
        rows = (np.arange(h) * x.shape[2]) // h
        columns = np.arange(w) * x.shape[3] // w
        out = np.zeros((len(x), x.shape[1], h, w), np.float32)
        out[:] = x[:, :, rows][:, :, :, columns]
        out += np.linspace(0, 1, h).astype(np.float32)[:, None]
        return [out]


class Unrolled(Stretch):
    """Sum the rows in a loop that a trace unrolls."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0][:2]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        total = x[:, :, 0].sum(-1)
        for i in range(1, x.shape[2]):
            total = total + x[:, :, i].sum(-1)
        return [total]


class Branching(Stretch):
    """Change the sign of pictures that are tall."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0]]

    def forward(self, inputs: Any) -> Any:
        x, like = inputs
        return [x if like.shape[3] >= like.shape[2] else -x]


def network(tmp_path: Path, cls: type = Stretch) -> Any:
    path = tmp_path / "net.prototxt"
    path.write_text(PROTOTXT)
    return anylayer.read(path, layers=[("Mine", cls)]).fill()


OPEN = {"data": ("N", 2, "H", "W")}


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_one_file_is_right_at_five_sizes_that_were_not_traced(tmp_path: Path, suffix: str) -> None:
    if suffix == "xml":
        pytest.importorskip("openvino", reason="openvino is not installed")
    done = network(tmp_path).write(tmp_path / f"net.{suffix}", shapes=OPEN)
    sizes = {c.sizes["data"] for c in done.checks if c.sizes is not None}
    assert len(sizes) == 5 and all(c.ok for c in done.checks)


def test_runtime_alone_computes_other_sizes(tmp_path: Path) -> None:
    net = network(tmp_path)
    net.write(tmp_path / "net.onnx", shapes=OPEN)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    for shape in ((1, 2, 5, 7), (3, 2, 31, 64)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = net.compile("numpy", shapes={"data": shape})(x)["out"]
        np.testing.assert_allclose(session.run(None, {"data": x})[0], want, atol=1e-5)


def test_loop_over_half_of_an_open_size_is_recorded_for_every_size(tmp_path: Path) -> None:
    done = network(tmp_path, Unrolled).write(tmp_path / "net.onnx", shapes=OPEN)
    assert not [n for n in done.notes if "must fulfil" in n]
    assert len({c.sizes["data"][2] for c in done.checks if c.sizes is not None}) == 5


class Scaled(Stretch):
    """Scale the first input by a number for its height, and print the height or keep it as text."""

    def forward(self, inputs: Any) -> Any:
        h = inputs[0].shape[2]
        print("shape", inputs[0].shape, h)
        logging.getLogger(__name__).warning("height %d", h)
        return [inputs[0] * np.float32(self.number(h))]

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0]]

    def number(self, h: int) -> float:
        return h / 2


class ScaledByTable(Scaled):
    def number(self, h: int) -> float:
        return [1, 2, 3][h // 4]


class ScaledByText(Scaled):
    def number(self, h: int) -> float:
        return float(len(f"{h}"))


def test_printing_and_logging_a_size_is_no_condition(tmp_path: Path) -> None:
    done = network(tmp_path, Scaled).write(tmp_path / "net.onnx", shapes=OPEN)
    assert not [n for n in done.notes if "must fulfil" in n]


def test_number_that_code_fixes_is_a_condition_with_its_line(tmp_path: Path) -> None:
    done = network(tmp_path, ScaledByTable).write(tmp_path / "net.onnx", shapes=OPEN)
    (note,) = (n for n in done.notes if "must fulfil" in n)
    assert re.search(r"\(H \+ 5\)//16 == 1 \(test_sizes\.py:\d+\)", note)
    assert all(11 <= c.sizes["data"][2] <= 26 for c in done.checks if c.sizes is not None)


def test_text_of_a_size_fixes_it(tmp_path: Path) -> None:
    done = network(tmp_path, ScaledByText).write(tmp_path / "net.onnx", shapes=OPEN)
    (note,) = (n for n in done.notes if "must fulfil" in n)
    assert re.search(r"H.* == 6 \(test_sizes\.py:\d+\)", note)


class ScaledByRows(Stretch):
    """Scale the second input by a number for its height."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[1]]

    def forward(self, inputs: Any) -> Any:
        return [inputs[1] * np.float32([3, 4][len(f"{inputs[1].shape[2]:b}") % 2])]


def test_number_that_leaves_one_size_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"allow only those of the trace .*H == 20 \(test_sizes\.py:\d+\)"):
        network(tmp_path, ScaledByRows).write(tmp_path / "net.onnx", shapes=OPEN)
    assert not (tmp_path / "net.onnx").exists()
    assert network(tmp_path, ScaledByRows).write(tmp_path / "net.onnx", shapes={"data": ("N", 2, 20, "W")}).checks


class Cells(Stretch):
    """Double each position of the map in a loop over all of them."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        n, c, h, w = inputs[1]
        return [[n, c, h * w]]

    def forward(self, inputs: Any) -> Any:
        n, c, h, w = inputs[1].shape
        flat = inputs[1].reshape(n, c, h * w)
        return [np.concatenate([2 * flat[:, :, i : i + 1] for i in range(h * w)], axis=2)]


@pytest.fixture
def few_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits on the operators of a trace, so that their tests record a tenth of them."""
    assert (checked._MAX_OPEN_OPERATORS, checked._MAX_OPERATORS) == (1000, 5000)
    monkeypatch.setattr(checked, "_MAX_OPEN_OPERATORS", 100)
    monkeypatch.setattr(checked, "_MAX_OPERATORS", 500)


@pytest.mark.usefixtures("few_operators")
def test_loop_over_all_positions_is_refused_with_its_line(tmp_path: Path) -> None:
    text = r"layer 'mine' \(Mine\): .* test_sizes\.py:\d+: this records more than 100 operators"
    with pytest.raises(AnyLayerError, match=text):
        network(tmp_path, Cells).write(tmp_path / "net.onnx", shapes=OPEN)
    assert not (tmp_path / "net.onnx").exists()


class Steps(Stretch):
    """Repeat a step 60 times, at every size."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[1]]

    def forward(self, inputs: Any) -> Any:
        y = inputs[1]
        for i in range(60):
            y = np.tanh(y + np.float32(i % 3 - 1))
        return [y]


@pytest.mark.usefixtures("few_operators")
def test_many_operators_are_recorded_where_sizes_do_not_change_their_number(tmp_path: Path) -> None:
    assert network(tmp_path, Steps).write(tmp_path / "net.onnx", shapes=OPEN).checks


class Needless(Branching):
    """Branch on sizes, with the same result on both sides."""

    def forward(self, inputs: Any) -> Any:
        x, like = inputs
        h, w = like.shape[2:]
        factor, offset = {True: 2, False: 2}[h > 40], {True: 1, False: 1}[w != h]
        return [x * np.float32(factor) + np.float32(offset)]


def test_condition_that_is_not_needed_is_dropped(tmp_path: Path) -> None:
    done = network(tmp_path, Needless).write(tmp_path / "net.onnx", shapes=OPEN)
    assert not any("fulfil" in note for note in done.notes)
    assert "anylayer.sizes" in {p.key: p.value for p in onnx.load(tmp_path / "net.onnx").metadata_props}


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_branch_on_a_size_is_a_condition_of_the_file(suffix: str, tmp_path: Path) -> None:
    if suffix == "xml":
        pytest.importorskip("openvino", reason="openvino is not installed")
    net = network(tmp_path, Branching)
    done = net.write(tmp_path / f"net.{suffix}", shapes=OPEN)
    assert any("W >= H" in note for note in done.notes)
    written = anylayer.read(tmp_path / f"net.{suffix}")
    assert "open sizes: data (N, 2, H, W) with W >= H" in str(written.inspect({"data": (1, 2, 12, 20)}))
    x = np.ones((1, 2, 12, 20), np.float32)
    want = net.compile("numpy", shapes={"data": x.shape})(x)["out"]
    np.testing.assert_allclose(written.compile("numpy", shapes={"data": x.shape})(x)["out"], want, atol=1e-6)
    with pytest.raises(InputError, match="the file allows only sizes with W >= H, got N = 1, H = 20, W = 12"):
        written.compile("numpy", shapes={"data": (1, 2, 20, 12)})


def even_batch(folder: Path) -> anylayer.Net:
    """Return the network of a written file that allows only even batches."""
    anylayer.export(
        lambda x: x * 2 if x.shape[0] % 2 == 0 else x * 3,
        np.ones((4, 3), np.float32),
        path=folder / "even.onnx",
        batch="N",
    )
    return anylayer.read(folder / "even.onnx")


def test_proposed_sizes_are_those_that_the_file_allows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Give shapes=\{'x': \(2, 3\)\}"):
        even_batch(tmp_path).write(tmp_path / "out.onnx")


def test_proposed_state_has_the_batch_size_of_the_other_inputs() -> None:
    sizes = {"x": (None, None), "state": (2, None, 8), "image": (1, None, None, 3)}
    assert shapes_wording(sizes) == "shapes={'x': (1, 16), 'state': (2, 1, 8), 'image': (1, 224, 224, 3)}"
    assert shapes_wording({"x": (2, None, 8)}) == "shapes={'x': (2, 16, 8)}"


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("shapes", [None, {"x": (2, 3)}, {"x": ("N", 3)}], ids=["unknown", "two", "open"])
def test_model_of_a_file_computes_only_the_sizes_that_the_file_allows(
    shapes: Any, engine: str, tmp_path: Path
) -> None:
    model = even_batch(tmp_path).compile(engine, shapes=shapes)
    for n in (2, 6):
        x = np.random.default_rng(n).random((n, 3), np.float32)
        np.testing.assert_array_equal(model({"x": x})["output"], x * 2)
    for n in (1, 3):
        with pytest.raises(InputError, match=rf"allows only sizes with N % 2 == 0, got N = {n}"):
            model({"x": np.ones((n, 3), np.float32)})


@pytest.mark.parametrize(
    ("size", "condition", "sizes"), [("B", "B % 2 == 0", {6, 8}), ("2*k", "(2*k) % 2 == 0", {2, 50})]
)
def test_written_file_keeps_the_conditions_of_its_source(
    size: str, condition: str, sizes: set[int], tmp_path: Path
) -> None:
    done = even_batch(tmp_path).write(tmp_path / "again.onnx", shapes={"x": (size, 3)})
    assert sizes <= {c.sizes["x"][0] for c in done.checks if c.ok}
    assert all(c.sizes["x"][0] % 2 == 0 for c in done.checks)
    (stated,) = (p.value for p in onnx.load(tmp_path / "again.onnx").metadata_props if p.key == "anylayer.sizes")
    assert condition in stated


def test_multiples_and_ranges_are_names_in_the_file(tmp_path: Path) -> None:
    done = network(tmp_path).write(tmp_path / "net.onnx", shapes={"data": (1, 2, "4*h", "8<=W<=200")})
    (given,) = onnx.load(tmp_path / "net.onnx").graph.input
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == [1, 2, "4*h", "W"]
    tried = [c.sizes["data"] for c in done.checks if c.sizes is not None]
    assert all(shape[2] % 4 == 0 and 8 <= shape[3] <= 200 for shape in tried)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"date": ("N", 2, 3, 4)}, "the network has no input 'date'; did you mean 'data'"),
        ({"data": ("N", 2, "H?", 4)}, r"size 'H\?' is not understood"),
        ({"data": ("N", "C", 8, 8)}, "C == 2"),
        ({"data": ("N", 2, 1.5, "W")}, r"size '1.5' is not understood"),
        ({"data": ("N", 2, "64<=H<=32", "W")}, "size 'H' must be at least 64 and at most 32, which is impossible"),
        ({"data": ("N", 2, "H>=64", "H<=32")}, "size 'H' must be at least 64 and at most 32, which is impossible"),
    ],
)
def test_impossible_sizes_are_refused(tmp_path: Path, shapes: Any, message: str) -> None:
    with pytest.raises(AnyLayerError, match=message):
        network(tmp_path).write(tmp_path / "net.onnx", shapes=shapes)
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize("sizes", [(2, "H", "W"), (2, 20, 24)])
def test_shape_with_another_number_of_axes_is_named(tmp_path: Path, sizes: Any) -> None:
    message = r"input 'data' has 4 axes in the file, but 3 in the shape that is given: .*\(1, 2, 20, 24\)"
    with pytest.raises(InputError, match=message):
        network(tmp_path).write(tmp_path / "net.onnx", shapes={"data": sizes})


def test_caffe_has_no_open_sizes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Caffe's files have fixed sizes"):
        network(tmp_path).write(tmp_path / "out.prototxt", shapes=OPEN)


@pytest.mark.parametrize("stated", [True, False])
def test_random_weights_with_open_sizes(tmp_path: Path, stated: bool) -> None:
    text = PROTOTXT if stated else PROTOTXT.replace("input_shape { dim: 1 dim: 2 dim: 20 dim: 24 }", "")
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Stretch)])
    shapes = {"data": ("N", 2, "H", "W")}
    net.fill(0, shapes)
    net.write(tmp_path / "net.onnx", shapes=shapes)
    found = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(
        None, {"data": np.zeros((2, 2, 31, 17), np.float32)}
    )
    assert found[0].shape == (2, 3, 31, 17)


def test_file_is_verified_at_the_traced_sizes_where_there_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anylayer.convert.job.verified_sizes", lambda sizes: [])
    monkeypatch.setattr("anylayer.convert.conversion.verified_sizes", lambda sizes: [])
    done = network(tmp_path).write(tmp_path / "net.onnx", shapes=OPEN)
    assert len({c.sizes["data"] for c in done.checks if c.sizes is not None}) == 2
    assert any("no sizes that fulfil the conditions were found" in note for note in done.notes)


def test_equation_that_few_sizes_fulfil_is_refused(tmp_path: Path) -> None:
    """An inner product of 36 numbers allows maps of 6 x 6, 4 x 9 and so on."""
    path = tmp_path / "net.prototxt"
    path.write_text(
        """input: "data" input_shape { dim: 1 dim: 1 dim: 24 dim: 24 }
        layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
                pooling_param { kernel_size: 4 stride: 4 } }
        layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 3 } }"""
    )
    net = anylayer.read(path).fill()
    with pytest.raises(
        InputError,
        match=r"H, W cannot all stay open: layer 'fc' \(InnerProduct\) fits few sizes only, H=24, W=24 ",
    ):
        net.write(tmp_path / "net.onnx", shapes={"data": ("N", 1, "H", "W")})
    assert not (tmp_path / "net.onnx").exists()


def test_interpolation_to_a_given_size_takes_every_size(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(
        """input: "x" input_shape { dim: 1 dim: 2 dim: 5 dim: 6 }
        layer { name: "y" type: "Interp" bottom: "x" top: "y" interp_param { height: 9 width: 11 } }"""
    )
    net = anylayer.read(path)
    done = net.write(tmp_path / "net.onnx", shapes={"x": (1, 2, "H", "W")})
    assert not any(">=" in note for note in done.notes), done.notes
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    for h, w in ((5, 6), (2, 3), (1, 1), (9, 11), (40, 3)):
        x = np.random.default_rng(h).standard_normal((1, 2, h, w), np.float32)
        want = net.compile("numpy", shapes={"x": x.shape})(x)["y"]
        np.testing.assert_allclose(session.run(None, {"x": x})[0], want, atol=1e-5)


def test_file_is_verified_at_five_batches_where_other_sizes_are_almost_fixed(tmp_path: Path) -> None:
    """The maps are 6 x 6 for heights and widths of 24 to 27 only, and the range leaves two of them."""
    (tmp_path / "net.prototxt").write_text(
        """input: "data" input_shape { dim: 1 dim: 1 dim: 24 dim: 24 }
        layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
                pooling_param { kernel_size: 4 stride: 4 round_mode: FLOOR } }
        layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 3 } }"""
    )
    net = anylayer.read(tmp_path / "net.prototxt").fill()
    done = net.write(tmp_path / "net.onnx", shapes={"data": ("N", 1, "8<=H<=25", 24)})
    assert len({c.sizes["data"] for c in done.checks if c.sizes is not None}) == 5


def opened_by_runtimes(net: Any, path: Path, shapes: Any, feeds: list[dict[str, Any]]) -> None:
    """Write a network as ONNX and IR, and fail unless ONNX Runtime and OpenVINO, called directly, match NumPy."""
    ov = pytest.importorskip("openvino", reason="openvino is not installed")
    for suffix in (".onnx", ".xml"):
        file = path.with_suffix(suffix)
        done = net.write(file, shapes=shapes)
        assert len({tuple(c.sizes.items()) for c in done.checks if c.sizes is not None}) == 5
        if suffix == ".onnx":
            run = onnxruntime.InferenceSession(file).run
        else:
            compiled = ov.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        for feed in feeds:
            want = net.compile("numpy", shapes={n: x.shape for n, x in feed.items()})(feed)
            for name, array in want.items():
                got = run([name], feed)[0] if suffix == ".onnx" else compiled(feed)[name]
                np.testing.assert_allclose(got, array, atol=1e-5 * max(1, np.abs(array).max()))


def test_onnx_network_that_computes_shapes_with_operators(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1]),
        node("Shape", ["t"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axes"], ["first"]),
        node("Concat", ["first", "rest"], ["target"], axis=0),
        node("Reshape", ["t", "target"], ["r"]),
        node("Softmax", ["r"], ["y"], axis=2),
    ]
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    constants = {"w": w, "zero": np.int64(0), "axes": np.int64([0]), "rest": np.int64([-1, 2])}
    made = model(nodes, [value("x", [1, 3, 8, 8])], ["y"], constants)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    noise = np.random.default_rng(1).standard_normal
    feeds = [{"x": noise((n, 3, h, w)).astype(np.float32)} for n, h, w in ((1, 1, 1), (2, 7, 31), (5, 64, 2))]
    net = anylayer.read(tmp_path / "net.onnx")
    opened_by_runtimes(net, tmp_path / "open", {"x": ("N", 3, "H", "W")}, feeds)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_onnx_recurrent_network_of_any_length(op: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).standard_normal
    rows = {"LSTM": 20, "GRU": 15, "RNN": 5}[op]
    weights = {n: 0.4 * noise((2, rows, d)).astype(np.float32) for n, d in (("w", 3), ("r", 5))}
    made = model(
        [helper.make_node(op, ["x", "w", "r", "", "", "h"], ["y"], hidden_size=5, direction="bidirectional")],
        [value("x", [4, 1, 3]), value("h", [2, 1, 5])],
        ["y"],
        weights,
    )
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    feeds = [
        {"x": noise((t, n, 3)).astype(np.float32), "h": noise((2, n, 5)).astype(np.float32)}
        for t, n in ((1, 1), (2, 3), (37, 2))
    ]
    net = anylayer.read(tmp_path / "net.onnx")
    opened_by_runtimes(net, tmp_path / "open", {"x": ("T", "N", 3), "h": (2, "N", 5)}, feeds)


@pytest.mark.parametrize(
    ("op", "direction"),
    [("LSTM", "forward"), ("LSTM", "bidirectional"), ("GRU", "reverse"), ("RNN", "bidirectional")],
)
def test_onnx_recurrent_network_of_sequences_of_any_length(op: str, direction: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows, d = {"LSTM": 20, "GRU": 15, "RNN": 5}[op], 2 if direction == "bidirectional" else 1
    weights = {n: random.normal(0, 0.4, (d, rows, k)).astype(np.float32) for n, k in (("w", 3), ("r", 5))}
    outputs = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    lens = helper.make_tensor_value_info("lens", onnx.TensorProto.INT32, [2])
    node = helper.make_node(op, ["x", "w", "r", "", "lens"], outputs, hidden_size=5, direction=direction)
    made = model([node], [value("x", [4, 2, 3]), lens], outputs, weights)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    feeds = []
    for t, n in ((1, 1), (7, 3), (37, 2)):
        x = random.standard_normal((t, n, 3)).astype(np.float32)
        feeds.append({"x": x, "lens": random.integers(1, t + 1, n).astype(np.int32)})
    opened_by_runtimes(
        anylayer.read(tmp_path / "net.onnx"), tmp_path / "open", {"x": ("T", "N", 3), "lens": ("N",)}, feeds
    )


RECURRENT = """
input: "x" input_shape {{ dim: 6 dim: 2 dim: 3 }}
input: "cont" input_shape {{ dim: 6 dim: 2 }}
input: "static" input_shape {{ dim: 2 dim: 4 }}
{inputs}
layer {{ name: "layer" type: "{type}" bottom: "x" bottom: "cont" bottom: "static" {blobs} top: "y" {tops}
  recurrent_param {{ num_output: 5 expose_hidden: true
    weight_filler {{ type: "gaussian" std: 0.6 }} bias_filler {{ type: "uniform" min: -0.3 max: 0.3 }} }} }}
"""


@pytest.mark.parametrize(("type_", "states"), [("LSTM", ["h", "c"]), ("RNN", ["h"])])
def test_caffe_recurrent_network_of_any_length(type_: str, states: list[str], tmp_path: Path) -> None:
    text = RECURRENT.format(
        type=type_,
        inputs="".join(f'input: "{s}0" input_shape {{ dim: 1 dim: 2 dim: 5 }}\n' for s in states),
        blobs=" ".join(f'bottom: "{s}0"' for s in states),
        tops=" ".join(f'top: "{s}"' for s in states),
    )
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt").fill()
    random = np.random.default_rng(0)
    feeds = []
    for t, n in ((1, 1), (2, 3), (13, 4), (60, 2)):
        feed = {"x": random.standard_normal((t, n, 3)), "cont": random.random((t, n)) > 0.3}
        feed |= {"static": random.standard_normal((n, 4))}
        feed |= {f"{s}0": random.standard_normal((1, n, 5)) for s in states}
        feeds.append({name: x.astype(np.float32) for name, x in feed.items()})
    shapes = {"x": ("T", "N", 3), "cont": ("T", "N"), "static": ("N", 4)}
    opened_by_runtimes(net, tmp_path / "open", shapes | {f"{s}0": (1, "N", 5) for s in states}, feeds)


def test_values_of_cont_at_open_steps_are_noted(tmp_path: Path) -> None:
    text = RECURRENT.format(type="RNN", inputs="", blobs="", tops="").replace("expose_hidden: true", "")
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt").fill()
    note = "with an open number of steps, cont must be 0 or 1; other values give NaN"
    shapes = {"x": ("T", 2, 3), "cont": ("T", 2)}
    assert note in " ".join(net.write(tmp_path / "open.onnx", shapes=shapes).notes)
    assert note not in " ".join(net.write(tmp_path / "fixed.onnx").notes)


class Squares(Branching):
    """Refuse pictures that are not squares."""

    def forward(self, inputs: Any) -> Any:
        h, w = inputs[1].shape[2:]
        if h != w:
            raise ValueError("needs squares")
        return [inputs[0]]


class Portraits(Branching):
    """Refuse pictures that are not higher than wide."""

    def forward(self, inputs: Any) -> Any:
        h, w = inputs[1].shape[2:]
        if h <= w:
            raise ValueError("needs portraits")
        return [inputs[0]]


@pytest.mark.parametrize(
    ("other", "shape", "message"),
    [
        (Portraits, ("N", 2, "H", "W"), "layer 'other'.*needs portraits"),
        (Squares, (1, 2, "H>=64", "W<=32"), "needs squares"),
    ],
)
def test_layers_whose_conditions_contradict_are_refused_by_name(
    tmp_path: Path, other: type, shape: Any, message: str
) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(PROTOTXT + 'layer { name: "other" type: "Other" bottom: "pool" bottom: "data" top: "last" }')
    net = anylayer.read(path, layers=[("Mine", Squares), ("Other", other)]).fill()
    with pytest.raises(AnyLayerError, match=message):
        net.write(tmp_path / "net.onnx", shapes={"data": shape})
    assert [p.name for p in tmp_path.iterdir()] == ["net.prototxt"]


class Same(Branching):
    """Return what `compute` gives for the input."""

    def forward(self, inputs: Any) -> Any:
        return [self.compute(inputs[0])]

    @staticmethod
    def compute(x: Any) -> Any:
        """Return the input."""
        return x


class Exponential(Same):
    """Replace a function of the base class by one of NumPy."""

    compute = staticmethod(np.exp)


def test_function_of_numpy_replaces_that_of_the_base_class(tmp_path: Path) -> None:
    feeds = [{"data": np.ones(shape, np.float32)} for shape in ((1, 2, 5, 7), (3, 2, 31, 64))]
    opened_by_runtimes(network(tmp_path, Exponential), tmp_path / "open", OPEN, feeds)


class TypeTest(Stretch):
    """Check sizes as careful code does."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[1][:1] + inputs[1][2:]]

    def forward(self, inputs: Any) -> Any:
        n, _, h, w = inputs[1].shape
        assert type(h) is int and type(h / 2) is float and type(w) in (int, float) and isinstance(n, int)
        target = np.array(inputs[1].shape)[[0, 2, 3]]
        target[1:] = target[1:] * 1
        return [inputs[1][:, 0].reshape(n * h, w).reshape(target)]


def test_integers_of_unknown_sizes_stay_integers(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    ids = value("ids", ["batch", "length"], np.int64)
    onnx.save(model(nodes, [ids], ["y"], {"table": table}), tmp_path / "net.onnx")
    net = anylayer.read(tmp_path / "net.onnx")
    path = tmp_path / "open.onnx"
    given = np.array([[5, 2, 7]])
    net.write(path, shapes={"ids": ("N", "L")}, verify={"ids": given.tolist()})
    (got,) = onnxruntime.InferenceSession(path).run(None, {"ids": given})
    np.testing.assert_array_equal(got, table[given])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_engine_that_fails_at_a_size_is_reported_with_the_size(tmp_path: Path) -> None:
    def centered(x: Any) -> Any:
        return x[:, :, 1:-1] - x[:, :, 1:-1].mean((2, 3), keepdims=True)

    given = ((1, 3, 16, 8), "float32")
    with pytest.raises(AnyLayerError, match=r"The sizes were x \(\d+, 3, \d, 8\).*give a range \(H>=64\)"):
        anylayer.export(centered, given, path=tmp_path / "net.onnx", shapes={"x": ("N", 3, "H", 8)})
    anylayer.export(centered, given, path=tmp_path / "net.onnx", shapes={"x": ("N", 3, "H>=3", 8)})


def test_names_of_open_sizes_of_a_function_are_given_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Give numbers here, and name the sizes that stay open in shapes="):
        anylayer.export(np.abs, (("N", 3), "float32"), path=tmp_path / "abs.onnx")


def test_types_and_arrays_of_sizes_are_those_of_numbers(tmp_path: Path) -> None:
    feeds = [{"data": np.ones(shape, np.float32)} for shape in ((1, 2, 5, 7), (3, 2, 31, 64))]
    opened_by_runtimes(network(tmp_path, TypeTest), tmp_path / "open", OPEN, feeds)


def test_function_of_square_arrays_may_have_open_sizes(tmp_path: Path) -> None:
    def square(x: Any) -> Any:
        if x.shape[0] != x.shape[1]:
            raise ValueError("needs squares")
        return x + x.T

    path = tmp_path / "square.onnx"
    done = anylayer.export(square, ((4, 4), "float32"), path=path, shapes={"x": ("H", "W")})
    assert any("== " in note for note in done.notes)
    x = np.random.default_rng(0).random((7, 7), np.float32)
    assert (onnxruntime.InferenceSession(path).run(None, {"x": x})[0] == x + x.T).all()


def test_axes_as_an_attribute_keep_sizes_symbolic(tmp_path: Path) -> None:
    """Unsqueeze of operator set 11 has its axes as an attribute, which a trace makes an array."""
    from onnx import TensorProto, helper, numpy_helper, save

    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n"], ["u"], axes=[0]),
        helper.make_node("Concat", ["u", "rest", "two"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    constants = {"zero": np.array(0), "rest": np.array([-1]), "two": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8), path)
    done = anylayer.read(path).write(tmp_path / "out.onnx", shapes={"x": ("N", "H", 6)})
    assert len(done.checks) == 5 and all(check.ok for check in done.checks)
