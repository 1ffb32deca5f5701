"""The command convert writes files of other formats and compares them with their source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer
from anylayer import numerics
from anylayer.convert import regimes
from anylayer.testing import assert_same

WITH = ("net.prototxt", "-l", "layers.py")


def shape_of(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_suffix_determines_format(anylayer_command, small):
    result = anylayer_command("convert", *WITH, "-o", "net.onnx")
    flat, means = result.stdout.splitlines()
    assert flat == "flat: largest difference 0, largest value 0.00289, accepted by share (1e-05)"
    assert re.fullmatch(
        r"means: largest difference [\d.e-]+, largest value 0\.087, accepted by share \(1e-05\)", means
    )
    assert result.stderr == "wrote net.onnx: 2 outputs, run by onnxruntime, compared with the layers in NumPy\n"
    session = onnxruntime.InferenceSession("net.onnx")
    means = session.run(["means"], {"data": np.ones((1, 3, 4, 6), np.float32)})[0]
    np.testing.assert_allclose(means, np.full((1, 3), 0.5))


def test_convert_writes_a_json_report(anylayer_command, small):
    Path("a").mkdir()
    data = json.loads(anylayer_command("convert", *WITH, "--to", "onnx", "-o", "a/net", "--json").stdout)
    assert {k: data[k] for k in ("model", "format", "files", "compared_with", "not_compared", "notes")} == {
        "model": "net.prototxt",
        "format": "onnx",
        "files": ["a/net"],
        "compared_with": "onnxruntime",
        "not_compared": "",
        "notes": [],
    }
    assert data["accepted_by"] == ["share"]
    assert [(o["name"], o["tolerance"], o["rule"], o["ok"]) for o in data["outputs"]] == [
        ("flat", 1e-5, "share", True),
        ("means", 1e-5, "share", True),
    ]
    assert (small / "a" / "net").exists()


def test_no_verify_skips_comparison(anylayer_command, small):
    result = anylayer_command("convert", *WITH, "-o", "net.onnx", "--no-verify")
    assert (result.stdout, result.stderr) == ("", "wrote net.onnx; not compared with its source: not asked for\n")
    assert anylayer_command("convert", *WITH, "-o", "net.onnx", "--no-verify", "-q").output == ""


def test_functions_and_kept_layers(anylayer_command, small):
    anylayer_command("convert", *WITH, "-o", "net.onnx", "--functions")
    assert [f.name for f in onnx.load("net.onnx").functions] == ["Times", "Means", "Flat"]
    anylayer_command(
        "convert", *WITH, "-o", "net.onnx", "--functions", "--function", "ShuffleChannel", "--keep", "Means"
    )
    model = onnx.load("net.onnx")
    assert [f.name for f in model.functions] == ["ShuffleChannel", "Times", "Flat"]
    assert "Means" in [n.op_type for n in model.graph.node]


def test_host_call_is_refused_or_kept(anylayer_command, small):
    shown = anylayer_command("convert", "net.prototxt", "-l", "host.py", "-o", "net.onnx", status=1).stderr
    assert "layer 'means' (Means): runs in Python, which a file cannot hold: host.py:" in shown.replace(
        f"{small}/", ""
    )
    assert not (small / "net.onnx").exists()
    shown = anylayer_command(
        "convert", "net.prototxt", "-l", "host.py", "-o", "net.onnx", "--keep", "Means"
    ).stderr
    assert shown == "wrote net.onnx; not compared with its source: nothing here computes the kept layers: Means\n"


def test_unknown_layers_are_named(anylayer_command, small):
    shown = anylayer_command("convert", "net.prototxt", "-o", "net.onnx", status=1).stderr
    assert shown.startswith("net.prototxt: 3 unknown layer types: 'Times' (layer 'half')")


def test_batch_and_shape(anylayer_command, small):
    anylayer_command("convert", *WITH, "-o", "net.onnx", "--batch", "4", "--shape", "1,3,8,8")
    assert shape_of(onnx.load("net.onnx").graph.input[0]) == [4, 3, 8, 8]


def test_batch_of_inputs_with_different_first_sizes_is_refused(anylayer_command, small):
    (small / "roi.prototxt").write_text(
        'input: "x" input_shape { dim: 1 dim: 2 dim: 6 dim: 6 }\ninput: "rois" input_shape { dim: 3 dim: 5 }\n'
        'layer { name: "y" type: "ROIPooling" bottom: "x" bottom: "rois" top: "y"\n'
        "  roi_pooling_param { pooled_h: 2 pooled_w: 2 } }\n"
    )
    shown = anylayer_command("convert", "roi.prototxt", "-o", "roi.onnx", "--batch", "N", status=1).stderr
    assert (
        "the first sizes of the inputs differ (x: 1, rois: 3), so it is not known which is the batch size" in shown
    )
    assert "give --shape instead" in shown


def test_batch_option_writes_a_symbolic_batch_size(anylayer_command, small):
    result = anylayer_command("convert", *WITH, "-o", "net.onnx", "--batch", "n")
    lines = [line.split(":")[0] for line in result.stdout.splitlines()]
    assert lines == [f"{name} (data {n}x3x4x6)" for n in (1, 4, 5, 6, 7) for name in ("flat", "means")]
    assert "wrote net.onnx: 2 outputs, " in result.stderr
    model = onnx.load("net.onnx")
    assert [shape_of(v) for v in (*model.graph.input, *model.graph.output)] == [
        ["n", 3, 4, 6],
        ["n", 1, 4, 6],
        ["n", 3],
    ]


def test_given_inputs_and_seed(anylayer_command, small):
    shown = anylayer_command("convert", *WITH, "-o", "net.onnx", "-i", "x.npy").stdout
    assert shown.startswith("flat: largest difference 0, largest value 0.0451, ")
    shown = anylayer_command("convert", *WITH, "-o", "net.onnx", "--seed", "5").stdout
    assert not shown.startswith("flat: largest difference 0, largest value 0.00289, ")


def test_options_reach_the_writer(anylayer_command, small):
    text = (
        (small / "net.prototxt")
        .read_text()
        .replace('type: "Flat"', 'type: "InnerProduct" inner_product_param { num_output: 99 }')
    )
    (small / "net.prototxt").write_text(text)
    words = ("convert", *WITH, "-o", "net.onnx", "--random-weights")
    assert anylayer_command(*words, "--set", "external=true").stderr.startswith(
        "wrote net.onnx, net.onnx.data: 2 outputs"
    )
    shown = anylayer_command(*words, "--set", "internal=1", status=1).stderr
    assert shown.startswith("--set internal: an ONNX model (.onnx) has no such option; did you mean 'external'?")
    assert (
        "an option is NAME=VALUE, got 'external'" in anylayer_command(*words, "--set", "external", status=2).stderr
    )


@pytest.mark.parametrize("name", ["batch", "shapes", "format"])
def test_setting_with_an_option_of_its_own(anylayer_command, small, name):
    shown = anylayer_command("convert", *WITH, "-o", "net.onnx", "--set", f"{name}=1", status=2).stderr
    assert f"{name} is not set here: see the options of --help" in shown


def test_difference_is_an_error(anylayer_command, small, monkeypatch):
    monkeypatch.setitem(numerics.TOLERANCE, "float32", 1e-12)
    monkeypatch.setattr(regimes, "ROUNDING_FACTOR", 0)
    shown = anylayer_command("convert", *WITH, "-o", "net.onnx", status=1).stderr
    text = (
        r"net.onnx: output 'means' differs from the source: largest difference .*, largest value 0\.087; "
        "the tolerance is 1e-12 of the largest value"
    )
    assert re.match(text, shown)
    assert "The first node that differs is 'means' (Means): largest difference " in shown
    assert not (small / "net.onnx").exists()


def test_to_dialect_is_refused_for_onnx(anylayer_command, small):
    anylayer_command("convert", *WITH, "-o", "net.onnx", "--dialect", "ssd")
    shown = anylayer_command("convert", *WITH, "-o", "net.onnx", "--to-dialect", "ssd", status=1).stderr
    assert shown.startswith("--to-dialect: an ONNX model (.onnx) has no such option")


def test_dialect_applies_to_written_file(anylayer_command, small):
    anylayer_command("convert", *WITH, "-o", "net.onnx")
    result = anylayer_command("convert", "net.onnx", "-o", "again.prototxt", "--dialect", "ssd")
    assert "again.prototxt, again.caffemodel, again.proto: 2 outputs, run by numpy" in result.stderr
    shown = anylayer_command("convert", "net.onnx", "-o", "again.prototxt", "--dialect", "sdd", status=1).stderr
    assert "'sdd'" in shown and "ssd" in shown


@pytest.mark.parametrize("out", ["net.xyz", "net"])
def test_unknown_suffix_is_refused(anylayer_command, small, out):
    shown = anylayer_command("convert", *WITH, "-o", out, status=1).stderr
    assert shown.startswith(f"{out}: its suffix means no format; it must be one of ")


def test_misspelled_folder_is_not_created(anylayer_command, small):
    Path("models").mkdir()
    shown = anylayer_command("convert", *WITH, "-o", "model/net.onnx", status=1).stderr
    assert shown.startswith(
        "model/net.onnx: cannot be written: there is no folder 'model'; did you mean 'models'?"
    )
    shown = anylayer_command("convert", *WITH, "-o", "new/inner/net.onnx", status=1).stderr
    assert "there is no folder 'new/inner'. Create it first" in shown
    assert not Path("model").exists() and not Path("new").exists()


# ---- preprocessing in the file

IMAGES = """
name: "means"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 10 dim: 12 } }
        transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
        pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
"""


@pytest.fixture
def images(small: Path) -> Any:
    """Write a network for images of 12x10 and an image of 33x21. Return the image in RGB order."""
    from PIL import Image

    Path("images.prototxt").write_text(IMAGES)
    rgb = np.random.default_rng(0).integers(0, 256, (21, 33, 3)).astype(np.uint8)
    Image.fromarray(rgb).save("picture.png")
    return rgb


@pytest.mark.one_per()
@pytest.mark.parametrize("order", ["rgb", "bgr"])
@pytest.mark.parametrize(
    "options",
    [
        ["--scale", "1/255", "--mean", "1,2,3", "--swap-rb"],
        [],
        ["--pixels", "torch"],
        ["--crop", "--size", "12x10"],
    ],
)
def test_file_with_preprocessing_matches_run(
    anylayer_command: Any, images: Any, order: str, options: list[str]
) -> None:
    anylayer_command("run", "images.prototxt", "-i", "picture.png", "-o", "want.npy", *options)
    asked = ["--preprocess", order, "--picture", "33x21", *options]
    anylayer_command("convert", "images.prototxt", "-o", "net.onnx", *asked, "-i", "picture.png")
    session = onnxruntime.InferenceSession("net.onnx")
    assert [(i.type, i.shape) for i in session.get_inputs()] == [("tensor(uint8)", [1, 21, 33, 3])]
    image = np.ascontiguousarray((images if order == "rgb" else images[:, :, ::-1])[None])
    assert_same(session.run(None, {session.get_inputs()[0].name: image})[0], np.load("want.npy"))
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    anylayer_command("convert", "images.prototxt", "-o", "net.xml", *asked)
    model = openvino.Core().compile_model("net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert_same(model([image])[0], np.load("want.npy"))
    for file in ("net.onnx", "net.xml"):
        shown = anylayer_command("run", file, "-i", "picture.png", "-o", "got.npy").stderr
        assert f"{order.upper()} (the file takes images in {order.upper()} order)" in shown
        assert_same(np.load("got.npy"), np.load("want.npy"))


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_written_again_file_with_preprocessing_keeps_its_order_of_channels(
    anylayer_command: Any, images: Any, precision: str
) -> None:
    Path("conv.prototxt").write_text(CONVOLUTION)
    Path("pictures").mkdir()
    Path("picture.png").rename("pictures/picture.png")
    quantized = ["--precision", precision, *(["--calibrate", "pictures"] if precision == "int8" else [])]
    anylayer_command("convert", "conv.prototxt", "--random-weights", "-o", "a.onnx", "--preprocess", *quantized)
    anylayer_command("convert", "a.onnx", "-o", "folder", "--to", "triton")
    assert '# input "image" takes images in RGB order' in Path("folder/config.pbtxt").read_text()
    assert "note: input 'image' takes images in RGB order" in anylayer_command("inspect", "a.onnx").stdout
    assert anylayer.read("folder/1/model.onnx").network.channel_orders == {"image": "RGB"}


def test_options_that_contradict_a_file_with_preprocessing_are_refused(anylayer_command: Any, images: Any) -> None:
    anylayer_command("convert", "images.prototxt", "-o", "net.onnx", "--preprocess", "bgr", "--picture", "any")
    words = ["run", "net.onnx", "-i", "picture.png"]
    shown = anylayer_command(*words, "--swap-rb", status=1).stderr
    assert "input 'image': the file takes images in BGR order: leave out --swap-rb" in shown
    for options in (["--mean", "1"], ["--scale", "2"], ["--pixels", "caffe"]):
        shown = anylayer_command(*words, *options, status=1).stderr
        assert (
            "input 'image': the file takes images as uint8, so --mean, --scale and --pixels do not apply" in shown
        )


def test_preprocessing_defaults_to_size_of_input(anylayer_command: Any, images: Any) -> None:
    shown = anylayer_command("convert", "images.prototxt", "-o", "net.onnx", "--preprocess").stderr
    assert "input 'data': resize to 12x10, BGR, minus mean 104,117,123, times 0.017" in shown
    assert onnxruntime.InferenceSession("net.onnx").get_inputs()[0].shape == [1, 10, 12, 3]


def test_unfitting_preprocessing_is_refused(anylayer_command: Any, images: Any) -> None:
    with_image = ["convert", "images.prototxt", "-o", "net.onnx", "--preprocess", "-i", "picture.png"]
    shown = anylayer_command(*with_image, status=1).stderr
    assert "picture.png: the image is 33x21, but the file accepts 12x10; give --picture 33x21" in shown
    shown = anylayer_command("convert", "images.prototxt", "-o", "n.onnx", "--picture", "9x9", status=2).stderr
    assert "--picture needs --preprocess: it is the size of the images that the file accepts" in shown
    shown = anylayer_command("convert", "images.prototxt", "-o", "n.onnx", "--scale", "2", status=2).stderr
    assert "--scale needs -i, --preprocess or --calibrate" in shown
    shown = anylayer_command(*with_image, "--picture", "keep", status=2).stderr
    assert "a size is WIDTHxHEIGHT, one number, or any, got 'keep'" in shown
    assert not Path("net.onnx").exists()


CONVOLUTION = """name: "small"
input: "data" input_shape { dim: 2 dim: 3 dim: 10 dim: 12 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 } }
"""


@pytest.fixture
def calibrated(images: Any, tmp_path: Path) -> list[str]:
    """Return the words of a command that quantizes a network, and make the folder "pictures"."""
    from PIL import Image

    Path("conv.prototxt").write_text(CONVOLUTION)
    Path("pictures").mkdir()
    for i in range(3):
        Image.fromarray(np.roll(images, 3 * i, axis=0)).save(f"pictures/{i}.png")
    Path("pictures/notes.txt").write_text("not a picture")
    words = ["convert", "conv.prototxt", "--random-weights", "-o", "net.onnx", "--precision", "int8"]
    return [*words, "--scale", "1/255", "--calibrate"]


@pytest.mark.parametrize("preprocess", [[], ["--preprocess"]])
def test_pictures_calibrate_int8(anylayer_command: Any, calibrated: list[str], preprocess: list[str]) -> None:
    result = anylayer_command(*calibrated, "pictures", *preprocess)
    lines = result.stdout.splitlines()
    assert re.fullmatch(
        r"conv: RMS of the differences [\d.e-]+, RMS of the values [\d.e-]+, accepted by rms \(0\.2\)", lines[0]
    )
    assert lines[1].startswith("the nodes that add most to the relative error (")
    assert re.search(r"^  conv \(Convolution\): adds [\d.]+%, relative error [\d.]+%$", result.stdout, re.M)
    types = {w.data_type for w in onnx.load("net.onnx").graph.initializer}
    assert onnx.TensorProto.INT8 in types
    data = json.loads(anylayer_command(*calibrated, "pictures", *preprocess, "--json").stdout)
    assert "conv" in [node["name"] for node in data["nodes"]] and data["outputs"][0]["tolerance"] == 0.2


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_pictures_of_several_sizes_calibrate_int8_with_open_sizes(
    anylayer_command: Any, calibrated: list[str], suffix: str, tmp_path: Path
) -> None:
    if suffix == "xml":
        pytest.importorskip("openvino", reason="openvino is not installed")
    from PIL import Image

    Image.open("pictures/0.png").crop((0, 0, 15, 11)).save("pictures/0.png")
    words = [w if w != "net.onnx" else f"net.{suffix}" for w in calibrated]
    shown = anylayer_command(*words, "pictures", "--shape", "data=N,3,H,W").output
    assert "original size" in shown and f"wrote net.{suffix}" in shown
    refused = anylayer_command(*words, "pictures", "--shape", "data=N,3,50*h,50*w", status=1).stderr
    assert "a size must be 50*" in refused and "give --size WxH" in refused


def test_unusable_calibration_is_refused_by_name(anylayer_command: Any, calibrated: list[str]) -> None:
    Path("empty").mkdir()
    shown = anylayer_command(*calibrated, "empty", status=1).stderr
    assert "there are no images and no .npy files in folder empty" in shown
    shown = anylayer_command(*calibrated, "absent", status=1).stderr
    assert "absent: there is no such file" in shown
    Path("pictures/2.png").write_bytes(b"broken")
    shown = anylayer_command(*calibrated, "pictures", status=1).stderr
    assert "pictures/2.png: this is not an image of a known format" in shown
    np.save("wrong.npy", np.zeros((2, 3, 9, 9), np.float32))
    shown = anylayer_command(*calibrated, "wrong.npy", status=1).stderr
    assert "wrong.npy: input 'data' has shape (2, 3, 9, 9), expected (2, 3, 10, 12)" in shown
    shown = anylayer_command(*calibrated[:-3], status=1).stderr
    assert "--precision int8 needs calibration data" in shown and "give --calibrate FOLDER" in shown
    assert not list(Path().glob("*.onnx")) and not list(Path().glob(".net*"))


@pytest.mark.one_per("resized")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("resized", [True, False])
def test_file_takes_images_of_any_size(anylayer_command: Any, images: Any, suffix: str, resized: bool) -> None:
    from anylayer.images.preprocess import Recipe, prepare

    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    Path("conv.prototxt").write_text(CONVOLUTION.replace("dim: 2", "dim: 1"))
    words = [
        "convert",
        "conv.prototxt",
        "--random-weights",
        "--scale",
        "1/255",
        *([] if resized else ["--size", "keep"]),
    ]
    anylayer_command(*words, "-o", f"net.{suffix}", "--preprocess", "--picture", "any")
    model = openvino.Core().compile_model(f"net.{suffix}", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    session = onnxruntime.InferenceSession("net.onnx") if suffix == "onnx" else None
    assert anylayer.read(f"net.{suffix}").network.dtypes == {"image": np.uint8}
    net = anylayer.read("conv.prototxt").fill()
    for height, width in [(10, 12), (21, 33), (97, 61), (7, 200), (480, 640)]:
        rgb = np.random.default_rng(height).integers(0, 256, (1, height, width, 3)).astype(np.uint8)
        x, _ = prepare(rgb[..., ::-1], Recipe(size=(10, 12) if resized else None, scale=1 / 255))
        want = net.compile("numpy")(x)["conv"]
        assert_same(model({"image": rgb})["conv"], want)
        if session is not None:
            assert_same(session.run(None, {"image": rgb})[0], want)


@pytest.mark.one_per("suffix")
@pytest.mark.parametrize("height, width", [(10, 12), (6, 227), (224, 1), (3, 1000)])
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_resize_in_a_file_is_exact_at_every_size(
    anylayer_command: Any, small: Path, suffix: str, height: int, width: int
) -> None:
    from anylayer.images.resize import resize

    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    Path("same.prototxt").write_text(
        f"""name: "same" input: "data" input_shape {{ dim: 1 dim: 3 dim: {height} dim: {width} }}
        layer {{ name: "y" type: "Power" bottom: "data" top: "y" power_param {{ scale: 2 }} }}"""
    )
    shown = anylayer_command("convert", "same.prototxt", "-o", f"y.{suffix}", "--preprocess", "--picture", "any")
    assert max(map(int, re.findall(r"largest value (\d+)", shown.stdout))) > 255  # images of 0 to 255
    model = openvino.Core().compile_model(f"y.{suffix}", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    random = np.random.default_rng(width)
    session = onnxruntime.InferenceSession("y.onnx") if suffix == "onnx" else None
    for _ in range(60):
        h, w = (int(n) for n in np.exp(random.uniform(0, 6, 2)))
        rgb = random.integers(0, 256, (1, h, w, 3), np.uint8)
        want = 2 * np.moveaxis(resize(rgb[..., ::-1], (height, width)), -1, 1).astype(np.float32)
        np.testing.assert_array_equal(model({"image": rgb})["y"], want, str((h, w)))
        if session is not None:
            np.testing.assert_array_equal(session.run(None, {"image": rgb})[0], want)


BATCHES = """name: "batches" input: "data" input_shape {{ dim: 4 dim: 3 dim: 10 dim: 12 }}
layer {{ name: "y" type: "Reshape" bottom: "data" top: "y" reshape_param {{ shape {{ dim: {batch} dim: 360 }} }} }}
"""


@pytest.mark.parametrize("options, first", [([], 1), (["--batch", "3"], 3), (["--batch", "N"], "N")])
@pytest.mark.parametrize("picture", [[], ["--picture", "any"]])
def test_file_with_preprocessing_takes_one_image_or_a_given_batch(
    anylayer_command: Any, images: Any, picture: list[str], options: list[str], first: Any
) -> None:
    Path("batches.prototxt").write_text(BATCHES.format(batch=0))
    anylayer_command("convert", "batches.prototxt", "-o", "net.onnx", "--preprocess", *picture, *options)
    (image,) = onnxruntime.InferenceSession("net.onnx").get_inputs()
    assert image.shape == [first, *(["H", "W"] if picture else [10, 12]), 3]


def test_file_with_preprocessing_keeps_a_batch_that_the_network_needs(anylayer_command: Any, images: Any) -> None:
    Path("batches.prototxt").write_text(BATCHES.format(batch=4))
    shown = anylayer_command("convert", "batches.prototxt", "-o", "net.onnx", "--preprocess").stderr
    assert "the network accepts only batches of 4, so the file takes 4 images" in shown
    (image,) = onnxruntime.InferenceSession("net.onnx").get_inputs()
    assert image.shape == [4, 10, 12, 3]


def test_preprocessing_of_an_input_named_image_gets_another_name(anylayer_command: Any, images: Any) -> None:
    Path("named.prototxt").write_text(BATCHES.format(batch=0).replace('"data"', '"image"'))
    anylayer_command("convert", "named.prototxt", "-o", "net.onnx", "--preprocess")
    assert [i.name for i in onnxruntime.InferenceSession("net.onnx").get_inputs()] == ["picture"]


def test_crop_of_images_of_every_size_is_refused(anylayer_command: Any, images: Any) -> None:
    words = ["convert", "images.prototxt", "-o", "net.onnx", "--preprocess", "--picture", "any", "--crop"]
    shown = anylayer_command(*words, "--size", "12x10", status=1).stderr
    assert "--crop needs images of one size: give --picture WxH, or leave out --crop" in shown


def test_unknown_suffix_names_the_option(anylayer_command, small):
    assert "or give --to FORMAT" in anylayer_command("convert", *WITH, "-o", "net", status=1).stderr


def test_calibration_data_need_int8(anylayer_command, small):
    shown = anylayer_command("convert", *WITH, "-o", "net.onnx", "--calibrate", ".", status=2).stderr
    assert "--calibrate needs --precision int8" in shown


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--set", "external=ture"), "--set external is true or false, got 'ture'"),
        (("--batch", "x-y"), "input 'data': size 'x-y' subtracts a name, so it may be negative"),
        (("--shape", "data=N,3,H-W,6"), "input 'data': size 'H-W' subtracts a name, so it may be negative"),
    ],
)
def test_options_without_meaning_are_refused(anylayer_command, small, options, rule):
    assert rule in anylayer_command("convert", *WITH, "-o", "net.onnx", *options, status=1).stderr
    assert not Path("net.onnx").exists()


def test_calibration_pictures_form_batches_of_the_given_size(anylayer_command: Any, calibrated: list[str]) -> None:
    anylayer_command(*calibrated, "pictures", "--batch", "2")
    assert onnx.load("net.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_operator_that_caffe_lacks_is_refused_with_the_file_once(
    anylayer_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Floor", ["x"], ["y"], "down")], "net", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), "net.onnx")
    shown = anylayer_command("convert", "net.onnx", "-o", "net.prototxt", status=1).stderr
    assert shown.startswith("net.onnx: layer 'down' (Floor): Caffe (dialect 'bvlc') has no layer for Floor")
