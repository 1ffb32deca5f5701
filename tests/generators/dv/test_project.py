"""Projects for DMP's DV700: built with a C++ compiler, run on a PC, and compared with the layers in NumPy."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, absent, needs_data

import anylayer
from anylayer.convert.generation import Generation
from anylayer.errors import ConversionError, InputError, LayerError
from anylayer.generators import dv
from tests.generators.pytorch.test_examples import example
from tests.generators.pytorch.test_project import quoted
from tests.generators.test_names import ATTACKS

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, dv._COMPILERS)), reason="there is no C++ compiler")
DATA = 'name: "SmallNet" layer { name: "data" type: "Input" top: "data" input_param { shape { %s } } }'


def dims(*sizes: int) -> str:
    return " ".join(f"dim: {d}" for d in sizes)


def layer(name: str, type_: str, bottoms: str, params: str = "") -> str:
    """Return a layer whose top has its name."""
    inputs = " ".join(f'bottom: "{b}"' for b in bottoms.split())
    return f'layer {{ name: "{name}" type: "{type_}" {inputs} top: "{name}" {params} }}\n'


class Mine:
    """Mirror the rows, scale by the columns, and add a number."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.add = np.float32(params.get("add", 1))

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        return [x[:, :, ::-1] * np.linspace(0.5, 1.5, x.shape[-1], dtype=np.float32) + self.add]


def generate(folder: Path, text: str, shape: tuple[int, ...] = (1, 3, 10, 12), **options: Any) -> Generation:
    (folder / "net.prototxt").write_text(DATA % dims(*shape) + text)
    net = anylayer.read(folder / "net.prototxt", layers=[("Mine", Mine)]).fill(1)
    return net.generate("dv", folder / "project", **options)


def source_of(folder: Path) -> str:
    (file,) = (folder / "project").glob("*_gen.cpp")
    return file.read_text()


def fields(text: str, number: int) -> dict[str, str]:
    """Return the assignments in the method of a layer."""
    body = text.split(f"::Layer_{number}()\n{{")[1].split("}//end of  Layer_")[0]
    return dict(re.findall(r"  ((?:layer|conf)[\w.\[\]]*) = (.*);", body))


CONV = "convolution_param { num_output: 12 kernel_size: 3 pad: 1 }"


def test_fields_of_a_fused_layer_equal_hand_written_ones(tmp_path: Path) -> None:
    text = layer("conv", "Convolution", "data", CONV) + layer("relu", "ReLU", "conv")
    text += layer("pool", "Pooling", "relu", "pooling_param { kernel_size: 3 stride: 2 }")
    text += layer("mine", "Mine", "pool", "mine_param { add: 0.5 list: 1 list: 2.5 flag: true }")
    generate(tmp_path, text + layer("last", "Convolution", "mine", CONV), test=False)
    found = fields(source_of(tmp_path), 0)
    want = {
        "layer.type": "LT_CONV", "layer.name": '"conv, relu, pool"', "conf.w": "12", "conf.h": "10", "conf.c": "3",
        "conf.run[0].m": "12", "conf.run[0].conv_enable": "1", "conf.run[0].p": "0x3",
        "conf.run[0].weight_fmt": "1",
        "conf.run[0].conv_pad": "0x1010101", "conf.run[0].conv_stride": "0x101", "conf.run[0].pool_enable": "1",
        "conf.run[0].pool_size": "0x303", "conf.run[0].pool_stride": "0x202", "conf.run[0].actfunc": "2",
        "conf.run[0].actfunc_param": "0x0",
        "layer.input_dim[0]": "12", "layer.input_dim[1]": "10", "layer.input_dim[2]": "3",
        "layer.input_dim_size": "3",
        "layer.output_dim[0]": "6", "layer.output_dim[1]": "5", "layer.output_dim[2]": "12",
        "layer.output_size": str(6 * 5 * 12 * 2), "layer.is_output": "false", "layer.is_f32_output": "false",
    }  # fmt: skip
    assert {name: found[name] for name in want} == want


def test_format_of_a_custom_layer_is_chosen_by_its_consumer(tmp_path: Path) -> None:
    mine = layer("mine", "Mine", "data", "mine_param { add: 0.5 list: 1 list: 2.5 flag: true word: 'a\"b' }")
    generate(tmp_path, mine, test=False)
    found, text = fields(source_of(tmp_path), 0), source_of(tmp_path)
    assert found["layer.is_f32_output"] == "true" and found["layer.output_size"] == str(10 * 12 * 3 * 4)
    assert (
        found["layer.custom_proc_ptr"] == "&custom_callback_Mine"
        and "put_layer_output(layer, output, io_ptr, !layer.is_f32_output);" in text
    )
    assert '    0.5,\n    { 1, 2.5,  },\n    true,\n    "a\\042b",\n  };' in text
    header = (tmp_path / "project" / "SmallNet_gen.h").read_text()
    members = ["  float add;", "  float list[2];", "  bool  flag;", "  const char *word;"]
    assert "\n".join(["struct custom_param_Mine", "{", *members, "};"]) in header
    assert "void custom_callback_Mine(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);" in header
    generate(tmp_path, mine + layer("conv", "Convolution", "mine", CONV), test=False)
    found = fields(source_of(tmp_path), 0)
    assert found["layer.is_f32_output"] == "false" and found["layer.output_size"] == str(10 * 12 * 3 * 2)
    assert fields(source_of(tmp_path), 1)["layer.is_input_hw_layout"] == "true"


POOL = "pooling_param { %s }"
KERNEL = "convolution_param { num_output: %s kernel_size: %s %s }"
PERMUTE = "permute_param { order: 0 order: 2 order: 3 order: 1 }"
DETECTION = "detection_output_param { num_classes: 2 keep_top_k: 5 nms_param { nms_threshold: 0.5 top_k: 9 } }"
FIRST = layer("x", "Convolution", "data", KERNEL % (16, 3, ""))
OTHER_INPUTS = "".join(
    f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims(*shape)} }} }} }}\n'
    for name, shape in (("other", (1, 3, 10, 12)), ("info", (1, 3)))
)
NETS = {
    "several kernels": "".join(
        layer(f"conv{k}", "Convolution", "data", f"convolution_param {{ num_output: {k + 8} kernel_size: {k} }}")
        for k in range(1, 8)
    ),
    "rectangle": layer(
        "conv", "Convolution", "data",
        "convolution_param { num_output: 9 kernel_h: 2 kernel_w: 5 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 3 }",
    ),
    "many channels": layer("a", "Convolution", "data", "convolution_param { num_output: 70 kernel_size: 1 }")
    + layer("b", "Convolution", "a", "convolution_param { num_output: 5 kernel_size: 1 }")
    + layer("c", "Convolution", "a", "convolution_param { num_output: 20 kernel_size: 3 }")
    + layer("d", "Convolution", "a", "convolution_param { num_output: 3 kernel_size: 5 }"),
    "dilation": layer("conv", "Convolution", "data",
                      "convolution_param { num_output: 9 kernel_size: 3 dilation: 2 }")
    + layer("slope", "PReLU", "conv"),
    "groups": layer("a", "Convolution", "data", "convolution_param { num_output: 12 kernel_size: 1 }")
    + layer("b", "Convolution", "a", "convolution_param { num_output: 8 kernel_size: 3 group: 4 }")
    + layer("c", "Convolution", "a", "convolution_param { num_output: 12 kernel_size: 3 group: 12 }"),
    "activations": "".join(
        layer(f"c{t}", "Convolution", "data", CONV) + layer(t.lower(), t, f"c{t}", p)
        for t, p in (("ReLU", "relu_param { negative_slope: 0.125 }"), ("TanH", ""), ("Sigmoid", ""), ("ELU", ""),
                     ("PReLU", ""), ("ReLU6", ""))
    ),
    "normalized": layer("conv", "Convolution", "data", "convolution_param { num_output: 9 kernel_size: 3 }")
    + layer("bn", "BatchNorm", "conv") + layer("scale", "Scale", "bn", "scale_param { bias_term: true }")
    + layer("relu", "ReLU", "scale") + layer("pool", "Pooling", "relu", POOL % "kernel_size: 2 stride: 2 pad: 1"),
    "pools": layer("a", "Pooling", "data", POOL % "kernel_size: 3 stride: 2")
    + layer("b", "Pooling", "data", POOL % "pool: AVE kernel_size: 2 stride: 2")
    + layer("c", "Pooling", "data", POOL % "pool: AVE global_pooling: true"),
    "sum": layer("a", "Convolution", "data", CONV) + layer("b", "Convolution", "data", CONV)
    + layer("sum", "Eltwise", "a b") + layer("relu", "ReLU", "sum"),
    "concat": layer("a", "Convolution", "data", CONV) + layer("b", "Mine", "data") + layer("cat", "Concat", "a b")
    + layer("c", "Convolution", "cat", CONV),
    "dense": layer("a", "Convolution", "data", CONV)
    + layer("fc", "InnerProduct", "a", "inner_product_param { num_output: 6 }")
    + layer("relu", "ReLU", "fc") + layer("fc2", "InnerProduct", "relu", "inner_product_param { num_output: 5 }")
    + layer("prob", "Softmax", "fc2"),
    "transposed": layer("a", "Deconvolution", "data", KERNEL % (9, 3, "stride: 2 pad: 1"))
    + layer("relu", "ReLU", "a")
    + layer("b", "Deconvolution", "relu", KERNEL % (9, 4, "stride: 2 pad: 1 group: 9"))
    + layer("c", "Deconvolution", "b", KERNEL % (6, 2, "stride: 2 group: 3"))
    + layer("d", "Deconvolution", "data", KERNEL % (5, 3, "dilation: 2")),
    "transposed on the CPU": layer("a", "Deconvolution", "data", KERNEL % (3, 8, "stride: 4 pad: 2"))
    + layer("b", "Convolution", "a", CONV),
    "wide dilation": layer("a", "Convolution", "data", KERNEL % (9, 3, "dilation: 4 pad: 4"))
    + layer("p", "PReLU", "a") + layer("b", "Convolution", "p", KERNEL % (9, 3, "dilation: 4 pad: 5"))
    + layer("m", "Pooling", "b", POOL % "kernel_size: 2 stride: 2"),
    "large maxima": "".join(
        layer(f"p{k}{s}", "Pooling", "data", POOL % f"kernel_size: {k} stride: {s} pad: {k // 2}")
        for k, s in ((4, 1), (5, 2), (6, 3), (7, 1), (8, 2), (9, 3))
    ) + layer("row", "Pooling", "data", POOL % "kernel_h: 2 kernel_w: 7")
    + layer("column", "Pooling", "data", POOL % "kernel_h: 3 kernel_w: 1"),
    "inputs": OTHER_INPUTS + layer("a", "Convolution", "data", KERNEL % (3, 3, "pad: 1"))
    + layer("sum", "Eltwise", "a other") + layer("mine", "Mine", "other") + layer("cat", "Concat", "sum mine")
    + layer("fc", "InnerProduct", "cat", "inner_product_param { num_output: 3 }")
    + layer("scaled", "Eltwise", "fc info", "eltwise_param { operation: PROD }"),
    "runs": FIRST + layer("s", "Convolution", "x", KERNEL % (8, 1, ""))
    + layer("a", "Convolution", "s", KERNEL % (16, 1, "")) + layer("ra", "ReLU", "a")
    + layer("b", "Convolution", "s", KERNEL % (24, 3, "pad: 1")) + layer("rb", "PReLU", "b")
    + layer("cat", "Concat", "ra rb") + layer("last", "Convolution", "cat", CONV),
    "runs in a row": FIRST + layer("a", "Convolution", "x", KERNEL % (16, 1, ""))
    + layer("b0", "Convolution", "x", KERNEL % (12, 1, ""))
    + layer("b", "Convolution", "b0", KERNEL % (8, 3, "pad: 1"))
    + layer("p", "Pooling", "x", POOL % "kernel_size: 3 pad: 1")
    + layer("c", "Convolution", "p", KERNEL % (24, 1, ""))
    + layer("cat", "Concat", "a b c") + layer("last", "Convolution", "cat", CONV),
    "concat without copies": FIRST + layer("a", "Convolution", "x", KERNEL % (8, 3, "pad: 1"))
    + layer("mine", "Mine", "a") + layer("cat", "Concat", "x a mine") + layer("last", "Convolution", "cat", CONV),
    "dense after custom": layer("mine", "Mine", "data")
    + layer("fc", "InnerProduct", "mine", "inner_product_param { num_output: 6 }"),
    "custom layers": layer("a", "Mine", "data") + layer("b", "Mine", "a", "mine_param { add: 2 }")
    + layer("s", "Softmax", "b") + layer("p", "Power", "s", "power_param { power: 2 shift: 1 }"),
    "padded means": layer("a", "Convolution", "data", CONV)
    + layer("p", "Pooling", "a", POOL % "pool: AVE kernel_size: 3 stride: 2 pad: 1")
    + layer("n", "LRN", "p", "lrn_param { local_size: 5 alpha: 0.5 }") + layer("b", "Convolution", "n", CONV),
    "parts for hardware": layer("a", "Convolution", "data", CONV)
    + 'layer { name: "cut" type: "Slice" bottom: "a" top: "u" top: "v" slice_param { slice_point: 5 } }'
    + layer("b", "Convolution", "u", CONV) + layer("c", "Mine", "v")
    + layer("s", "Softmax", "b") + layer("d", "Convolution", "s", CONV),
    "general operators": layer("a", "Convolution", "data", CONV)
    + layer("n", "Normalize", "a", "norm_param { across_spatial: false }")
    + layer("p", "Permute", "n", "permute_param { order: 0 order: 2 order: 3 order: 1 }")
    + layer("f", "Flatten", "p") + layer("e", "Exp", "f"),
}  # fmt: skip


@pytest.mark.one_per()
@needs_compiler
@pytest.mark.parametrize("name", NETS)
def test_network_on_the_runtime_for_pcs_matches_numpy(name: str, tmp_path: Path) -> None:
    done = generate(tmp_path, NETS[name])
    assert done.untested == "" and done.notes == [] and all("largest difference" in line for line in done.report)


@pytest.mark.parametrize(
    ("name", "kinds", "field", "value"),
    [
        ("transposed", "CONV CONV CONV CONV", "conf.run[0].conv_enable", ["5", "7", "5", "5"]),
        ("transposed on the CPU", "CUSTOM CONV", "conf.run[0].conv_enable", ["1"]),
        ("wide dilation", "CONV CUSTOM CUSTOM CONV", "conf.run[0].conv_dilation", ["0x404", "0"]),
        ("runs", "CONV CONV CONV CONV", "conf.topo", ["0x1", "0x1", "0x3", "0x1"]),
        ("runs in a row", "CONV CONV CONV", "conf.topo", ["0x1", "0x15", "0x1"]),
        ("concat without copies", "CONV CONV CUSTOM CONCAT CONV", "conf.topo", ["0x1", "0x1", "0x1"]),
    ],
)  # fmt: skip
def test_layers_are_those_that_the_hardware_has(
    name: str, kinds: str, field: str, value: list[str], tmp_path: Path
) -> None:
    generate(tmp_path, NETS[name], test=False)
    text = source_of(tmp_path)
    found = [fields(text, i) for i in range(text.count("//end of  Layer_"))]
    assert [f["layer.type"] for f in found] == [f"LT_{kind}" for kind in kinds.split()]
    assert [f[field] for f in found if field in f] == value


def test_inputs_have_names_and_offsets_in_the_header(tmp_path: Path) -> None:
    folder = generate(tmp_path, NETS["inputs"], test=False).folder
    header, size = (folder / "SmallNet_gen.h").read_text(), 3 * 10 * 12 * 2
    assert f"enum {{ input_data = 0, input_other = {size}, input_info = {2 * size} }};" in header


@pytest.mark.one_per()
@needs_compiler
@pytest.mark.parametrize("arguments", [2, 3])
def test_both_generations_of_callbacks_build_and_run(arguments: int, tmp_path: Path) -> None:
    done = generate(tmp_path, NETS["concat"] + NETS["custom layers"].replace('"a"', '"a2"').replace('"b"', '"b2"'),
                    callback_arguments=arguments)  # fmt: skip
    header = (tmp_path / "project" / "SmallNet_gen.h").read_text()
    assert ("uint8_t *io_ptr" in header) == (arguments == 3) and done.untested == ""


@needs_compiler
def test_test_notices_wrong_weights(tmp_path: Path) -> None:
    done = generate(tmp_path, NETS["dense"])
    weights = tmp_path / "project" / "SmallNet_weights.bin"
    data = bytearray(weights.read_bytes())
    data[-16:-14] = np.float16(9).tobytes()  # the bias of the last layer
    weights.write_bytes(data)
    commands = [
        ["c++", "-std=c++11", "-Ihost", "test_network.cpp", "SmallNet_gen.cpp", "host/dmp_network.cpp", "-o", "t"],
        ["./t"],
    ]
    ran = [subprocess.run(c, cwd=done.folder, capture_output=True, text=True, check=False) for c in commands]
    assert ran[0].returncode == 0 and ran[1].returncode == 1 and "above the tolerance" in ran[1].stdout


@pytest.mark.one_per()
@needs_compiler
@pytest.mark.parametrize("name", ["yolo", "interp", "reorg", "upsample", "shuffle_channel", "normalize image"])
def test_example_layers_match_numpy(name: str, tmp_path: Path) -> None:
    tested = example(name, tmp_path)
    done = replace(tested, inputs=[x[:1] for x in tested.inputs]).generate(test=True, target="dv")
    assert done.untested == "" and len(done.report) == len(tested.node.outputs)


PRIORS = "prior_box_param { %s flip: true clip: %s %s }"
FOUR = "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"


@needs_compiler
def test_boxes_are_a_loop_over_params_not_a_table(tmp_path: Path) -> None:
    text = layer("conv", "Convolution", "data", CONV)
    text += layer(
        "one", "PriorBox", "conv data", PRIORS % ("min_size: 4 max_size: 9 aspect_ratio: 2", "true", FOUR)
    )
    text += layer(
        "two", "PriorBox", "data data", PRIORS % ("min_size: 5 max_size: 7 aspect_ratio: 3", "true", FOUR)
    )
    text += layer("three", "PriorBox", "conv data", PRIORS % ("min_size: 4", "false", "variance: 0.1"))
    done = generate(tmp_path, text + layer("all", "Concat", "one two three", "concat_param { axis: 2 }"))
    assert done.untested == "" and "largest difference" in done.report[0]
    header = (tmp_path / "project" / "SmallNet_gen.h").read_text()
    members = ["  int   img_size[2];", "  float min_size;", "  float max_size;", "  float aspect_ratios[4];"]
    members += ["  float variances[4];", "  bool  clip;"]
    assert "\n".join(["struct custom_param_PriorBox", "{", *members, "};"]) in header
    assert header.count("struct custom_param_PriorBox") == 2 and "float aspect_ratios[1];" in header
    source = source_of(tmp_path)
    assert (
        "{ 12, 10,  },\n    4.0,\n    9.0,\n    { 1.0, 1.0, 2.0, 0.5,  },\n"
        "    { 0.1, 0.1, 0.2, 0.2,  },\n    true," in source
    )
    assert not re.search(r"(-?\d+\.\d+f?,\s*){12}", source), "there is a table"


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        (layer("c", "Convolution", "data", "convolution_param { num_output: 2 kernel_size: 9 }"), (1, 3, 10, 12),
         r"layer 'c' \(Convolution\): the hardware takes kernels of at most 7, got 9 x 9"),
        (layer("c", "Convolution", "data", CONV), (1, 3, 4, 2048), r"maps of at most 2047 \(width\), got 2048"),
        (layer("c", "Convolution", "data", CONV), (1, 3, 1025, 4), r"maps of at most 1024 \(height\), got 1025"),
        (layer("f", "InnerProduct", "data", "inner_product_param { num_output: 2 }"), (1, 1, 129, 128),
         "fully connected layers of at most 16384 inputs, got 16512"),
        (layer("c", "Convolution", "data", KERNEL % (2, 3, "pad_h: 128 pad_w: 1")), (1, 3, 4, 4),
         "the hardware takes padding of at most 127, got 128 x 1 x 128 x 1"),
    ],
)  # fmt: skip
def test_limits_of_the_hardware_are_checked_by_name(
    tmp_path: Path, text: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(LayerError, match=message):
        generate(tmp_path, text, shape)
    assert not (tmp_path / "project").exists()


def test_other_networks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"input 'data' has the batch size 2; give shapes=\{'data': \(1, ...\)\}"):
        generate(tmp_path, layer("relu", "ReLU", "data"), (2, 3, 4, 4))
    with pytest.raises(InputError, match="callback_arguments must be 2 or 3, got 4"):
        generate(tmp_path, layer("relu", "ReLU", "data"), callback_arguments=4)
    assert not (tmp_path / "project").exists()


class Chosen(Mine):
    """Return the pixels of the first map that are positive."""

    def forward(self, inputs: Any) -> Any:
        x = inputs[0].reshape(-1, 1)
        return [x[x[:, 0] > 0]]


class Recurrent(Mine):
    """Use an operator without loops."""

    def forward(self, inputs: Any) -> Any:
        w, r = (np.ones((1, 4, n), np.float32) for n in (inputs[0].shape[-1], 1))
        return [anylayer.ops.lstm(inputs[0][0], w, r, hidden_size=1)[0]]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (Chosen, r"layer 'mine' \(Mine\): the size of its output depends on data"),
        (Recurrent, r"layer 'mine' \(Mine\): .*operator LSTM at test_project.py:\d+ cannot become loops"),
    ],
)
def test_layers_without_code_are_refused_by_name(layers: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(DATA % dims(1, 3, 4, 4) + layer("mine", "Mine", "data"))
    with pytest.raises(LayerError, match=message):
        anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", layers)]).generate("dv", tmp_path / "project")
    assert not (tmp_path / "project").exists()


BOXES = (
    layer("c", "Convolution", "data", KERNEL % (4, 1, "")) + layer("p", "Permute", "c", PERMUTE)
    + layer("loc", "Flatten", "p") + layer("d", "Convolution", "data", KERNEL % (2, 1, ""))
    + layer("q", "Permute", "d", PERMUTE) + layer("conf", "Flatten", "q")
    + layer("priors", "PriorBox", "c data", "prior_box_param { min_size: 4 }")
    + layer("out", "DetectionOutput", "loc conf priors", DETECTION)
)  # fmt: skip


@pytest.mark.breadth
@needs_compiler
@pytest.mark.parametrize("threshold", ["", "confidence_threshold: 1e9"])
def test_detections_are_rows_of_a_fixed_number_with_absent_ones_of_minus_one(
    threshold: str, tmp_path: Path
) -> None:
    done = generate(tmp_path, BOXES.replace("keep_top_k", threshold + " keep_top_k"))
    assert done.untested == "" and "largest difference" in done.report[0]
    assert (
        "output 'out' always has the shape (1, 1, 5, 7); the rows after the last result hold -1" in done.notes[0]
    )
    net = anylayer.read(tmp_path / "net.prototxt").fill(1)
    image = np.random.default_rng(0).standard_normal((1, 3, 10, 12)).astype(np.float32)
    net.generate("dv", tmp_path / "project", inputs={"data": image})
    (want,) = net.compile("numpy")({"data": image}).values()
    got = np.frombuffer((tmp_path / "project" / "test_data.bin").read_bytes()[-5 * 7 * 4 :], np.float32)
    rows = got.reshape(5, 7)
    assert (len(want[0, 0]) == 1) == bool(threshold) and (rows[len(want[0, 0]) :] == -1).all()
    np.testing.assert_allclose(rows[: len(want[0, 0])], want[0, 0], rtol=0, atol=2e-2)


def test_layers_after_rows_of_data_are_refused_with_a_remedy(tmp_path: Path) -> None:
    text = BOXES + layer("next", "Power", "out", "power_param { scale: 2 }")
    with pytest.raises(LayerError, match=r"layer 'next' .*number depends on data, .*end the network before this"):
        generate(tmp_path, text)
    assert not (tmp_path / "project").exists()


def test_lrn_is_a_hardware_layer_where_the_hardware_has_its_parameters(tmp_path: Path) -> None:
    text = FIRST + "".join(
        layer(f"n{i}", "LRN", source, f"lrn_param {{ local_size: {size} alpha: 0.0001 {more} }}")
        for i, (source, size, more) in enumerate(
            [
                ("x", 5, ""),
                ("x", 3, ""),
                ("x", 5, "k: 2"),
                ("x", 5, "norm_region: WITHIN_CHANNEL"),
                ("data", 5, ""),
            ]
        )
    )
    generate(tmp_path, text)
    found = [fields(source_of(tmp_path), i) for i in range(6)]
    assert [f["layer.type"] for f in found[1:]] == ["LT_CONV", *["LT_CUSTOM"] * 4]
    assert found[1]["conf.run[0].lrn"] == "0x503" and found[1]["conf.run[0].conv_enable"] == "0"
    assert found[0]["conf.run[0].lrn"] == "0" and found[1]["conf.run[0].m"] == "16"


@needs_compiler
def test_weights_of_8_bits_are_a_table_and_indices(tmp_path: Path) -> None:
    text = (
        FIRST
        + layer("relu", "ReLU", "x")
        + layer("wide", "Convolution", "relu", KERNEL % (16, 3, "dilation: 2 pad: 2"))
    )
    text += layer("d", "Convolution", "wide", KERNEL % (16, 5, "pad: 2 group: 16")) + layer("p", "PReLU", "d")
    text += layer("up", "Deconvolution", "p", KERNEL % (9, 7, "stride: 2"))
    text += layer("fc", "InnerProduct", "up", "inner_product_param { num_output: 7 }")
    generate(tmp_path, text)
    exact = sum(f.stat().st_size for f in (tmp_path / "project").glob("*_weights.bin"))
    done = generate(tmp_path, text, quantization=1)
    assert done.untested == "" and "weights of 8 bits change an output by 0.0" in " ".join(done.notes)
    found = [fields(source_of(tmp_path), i) for i in range(5)]
    formats = [f.get("conf.run[0].weight_fmt", f.get("conf.weight_fmt")) for f in found]
    assert formats == [
        "3",
        "3",
        "1",
        "3",
        "1",
    ]  # a convolution with PReLU has 16-bit floats, a dense layer its own number
    assert sum(f.stat().st_size for f in (tmp_path / "project").glob("*_weights.bin")) < 0.6 * exact


@needs_compiler
@pytest.mark.one_per()
@pytest.mark.parametrize("read", ["weights", "sum and weights", "sum"])
def test_values_beyond_16_bit_floats_are_divided_where_weights_undo_it(read: str, tmp_path: Path) -> None:
    text = FIRST + layer("relu", "ReLU", "x")
    text += layer("pool", "Pooling", "relu", POOL % "kernel_size: 2 stride: 2")
    source = "pool"
    if "sum" in read:
        text += layer("y", "Convolution", "data", KERNEL % (16, 3, "stride: 2"))
        text, source = text + layer("sum", "Eltwise", "pool y") + layer("relu2", "ReLU", "sum"), "relu2"
    text += layer("last", "Convolution", source, KERNEL % (16, 3, "pad: 1")) if "weights" in read else ""
    (tmp_path / "net.prototxt").write_text(DATA % dims(1, 3, 10, 12) + text)
    net = anylayer.read(tmp_path / "net.prototxt").fill(1)
    for node in net.network.nodes:
        factor = {"x": 4e4, "last": 1e-5}.get(node.name, 1)
        node.blobs = [np.float32(factor) * b for b in node.blobs]
    if read == "sum":
        with pytest.raises(LayerError, match=r"layer 'x' \(Convolution\): 16-bit floats hold at most 65504"):
            net.generate("dv", tmp_path / "project")
        return
    done = net.generate("dv", tmp_path / "project")
    assert done.untested == "" and "largest difference" in done.report[0]
    assert len(done.notes) == 1 and "layer 'x' computes values up to" in done.notes[0]
    assert "divided by a power of two" in done.notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (layer("big", "Mine", "data", "mine_param { add: 1e5 }") + layer("b", "Convolution", "big", CONV),
         r"layer 'big' \(Mine\): 16-bit floats .* 65504, and this layer gives values up to .*inputs="),
        (layer("a", "Convolution", "data", CONV) + layer("big", "Power", "a", "power_param { scale: 1e6 }"),
         r"layer 'big' \(Power\): 16-bit floats hold at most 65504, and its weights go up to"),
    ],
)  # fmt: skip
def test_numbers_that_16_bit_floats_cannot_hold_are_refused_by_name(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(LayerError, match=message):
        generate(tmp_path, text)


ULTRAFACE = REFERENCE / "models" / "ultraface_RFB-320"


@needs_compiler
@needs_data("models/ultraface_RFB-320")
def test_deep_network_matches_numpy_that_rounds_as_the_hardware_does(tmp_path: Path) -> None:
    net = anylayer.read(ULTRAFACE / "deploy.prototxt", ULTRAFACE / "weights.caffemodel")
    done = net.generate("dv", tmp_path / "project")
    found = [re.search(r"largest difference (\S+), largest value (\S+)", line) for line in done.report]
    assert len(found) == 2 and all(m is not None and float(m[1]) <= 2e-3 * float(m[2]) for m in found)
    assert len(done.notes) == 1 and "16-bit floats change an output by 0.00" in done.notes[0]


@needs_data("models/ultraface_RFB-320")
def test_shapes_that_a_file_computes_are_constants(tmp_path: Path) -> None:
    path = ULTRAFACE / "version-RFB-320_without_postprocessing.onnx"
    folder = anylayer.read(path).generate("dv", tmp_path / "project", test=False).folder
    (text,) = (file.read_text() for file in folder.glob("*_gen.cpp"))
    assert text.count("LT_CONV") > 50 and "custom_callback_Shape" not in text


@needs_compiler
def test_project_does_not_appear_where_its_test_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dv, "TOLERANCE", 0.0)
    with pytest.raises(
        ConversionError,
        match=r"(?s)own test fails:.*output 0: largest difference .*, above the tolerance",
    ):
        generate(tmp_path, NETS["dense"])
    assert not (tmp_path / "project").exists()


@pytest.mark.one_per()
@pytest.mark.parametrize("fmt", ["keras", "pb", "onnx"])
@needs_compiler
def test_networks_of_other_formats(fmt: str, tmp_path: Path) -> None:
    if fmt == "onnx":
        (tmp_path / "net.prototxt").write_text(DATA % dims(1, 3, 10, 12) + NETS["dense"])
        path = tmp_path / "net.onnx"
        anylayer.read(tmp_path / "net.prototxt").fill(1).write(path)
    else:
        path = REFERENCE / "tf_keras" / f"stride_same_even.{fmt}"
        if reason := absent(f"tf_keras/{path.name}"):
            pytest.skip(reason)
    done = anylayer.read(path).generate("dv", tmp_path / "project")
    assert done.untested == "" and done.notes == []
    assert any("LT_CONV" in file.read_text() for file in done.files if file.name.endswith("_gen.cpp"))


CODE_ONLY = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')


@pytest.mark.one_per()
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_text_of_the_network_does_not_become_code(attack: Path, tmp_path: Path) -> None:
    text = attack.read_bytes().decode()
    name = quoted(text)
    net = f'name: {name} layer {{ name: {name} type: "Input" top: "data" '
    net += f"input_param {{ shape {{ {dims(1, 3, 4, 4)} }} }} }}"
    net += f'layer {{ name: {name} type: {name} bottom: "data" top: "mine" mine_param {{ add: 1 text: {name} }} }}'
    net += f'layer {{ name: "other" type: "Input" top: {name} input_param {{ shape {{ {dims(1, 3, 4, 4)} }} }} }}'
    net += f'layer {{ name: "sum" type: "Eltwise" bottom: "mine" bottom: {name} top: "sum" }}'
    (tmp_path / "net.prototxt").write_text(net)
    done = anylayer.read(tmp_path / "net.prototxt", layers=[(text, Mine)]).generate(
        "dv", tmp_path / "out" / "project", test=False
    )
    assert all(re.fullmatch(r"[A-Za-z0-9_./]+", f.relative_to(tmp_path / "out").as_posix()) for f in done.files)
    for file in done.files:
        if file.suffix in (".cpp", ".h"):
            plain = file.read_bytes().decode("utf-8")
            assert not re.search(r"\bsystem\b", CODE_ONLY.sub("", plain))
            assert all(c.isprintable() or c in "\n\t" for c in plain)
    if shutil.which("c++"):
        (source,) = (f for f in done.files if f.name.endswith("_gen.cpp"))
        command = [
            "c++",
            "-std=c++11",
            "-fsyntax-only",
            "-Wall",
            "-Werror",
            "-Wno-unused-function",
            "-Ihost",
            source.name,
        ]
        built = subprocess.run(command, cwd=done.folder, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
    assert not list(tmp_path.rglob("pwned"))
