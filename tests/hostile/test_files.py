"""Damaged files that once crashed, did not end, used gigabytes of memory or raised other exceptions.

Each folder of tests/data/hostile holds one file and the files that belong to it. It is read, inspected, compiled
and run on every engine, and written by every writer, in a process with limited memory and processor time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trials

DATA = Path(__file__).parents[1] / "data" / "hostile"
MODELS = (
    "m.xml", "m.json", "m.keras", "m.onnx", "m.pb", "m.pbtxt", "deploy.prototxt", "e.onnx", "m.h5", "w.caffemodel",
)  # fmt: skip
WEIGHTS = {"m.json": "m.weights.h5", "deploy.prototxt": "w.caffemodel"}

OUTPUTS = "is read; the limit is 65536 outputs"
NOT_TEXT = "in it is not UTF-8"
PERM = "must be a permutation of the 5 axes of the input"
LOST = "claims shape (1048576, 1048576), 0 bytes are stored in this file"

RIGHT = ("foreign_onnx-node_03", "foreign_onnx-node_04", "nofile_keras-h5_01", "nofile_keras-json_02",
         "nofile_keras-zip_07", "nofile_onnx-node_03", "nofile_onnx-node_08", "repeat_796340113b")  # fmt: skip
"""Files that are read, run and written, because the damage has no effect."""

REFUSED = {
    "died_onnx-node_00": "layer 'ReduceSum_1') is computed wrongly by this engine: computed axes of an array",
    "died_onnx-node_01": "an array has 13 axes; with more than 12, some operators crash",
    "died_onnx-node_02": "axis must lie in -4..3, got 9223372036854775807",
    "died_onnx-node_03": "computed axes of an array of shape [0, 3] end the process",
    "exception_caffemodel-alone_08": "w.caffemodel: layer 'l_y' (Normalize): top 0 has no name",
    "exception_keras-json_00": f"output 2147483648 of layer 'global_average_pooling2d' {OUTPUTS}",
    "exception_keras-json_16": "layer 'pair' (Functional): the nested model has no outputs",
    "exception_keras-op_04": "layer 'op' (Attention): input 1 must be a tensor, got True",
    "exception_keras-op_09": "layer 'op' (GroupedQueryAttention): input 0 must be a tensor, got '../x'",
    "exception_keras-op_11": "layer 'op' (MultiHeadAttention): input 0 must be a tensor, got None",
    "exception_keras-op_14": "layer 'op' (GRU): input 0 must be a tensor, got None",
    "exception_keras-op_23": "layer 'op' (ConvLSTM2D): input 0 must be a tensor, got 'a'",
    "exception_keras-zip_03": "layer 'gru' (GRU): mask must be a tensor, got {'class_name': '__keras_tensor__'",
    "exception_keras-zip_10": "'logical_and' (LogicalAnd): returns a ndarray, which is not a tensor of numbers",
    "exception_keras-zip_19": "this is not a readable zip archive: Corrupt input data",
    "exception_keras-zip_20": "layer 'max' (Max): returns a dict, which is not a tensor of numbers",
    "exception_onnx-conv_01": "layer 'l_y' (LRN): size must be at least 1, got 0",
    "exception_onnx-conv_02": "layer 'l_y' (LRN): takes an input (N, C, ...), got shape ()",
    "exception_onnx-conv_06": f"layer 'Transpose' (Transpose): perm [1, 0, 2, 3] {PERM}",
    "exception_onnx-conv_07": rf"the name b'\xce\xf0\xdb' {NOT_TEXT}",
    "exception_onnx-conv_22": NOT_TEXT,
    "exception_onnx-node_17": NOT_TEXT,
    "exception_onnx-node_18": NOT_TEXT,
    "exception_onnx-node_21": NOT_TEXT,
    "exception_pbtxt_13": "m.pbtxt:54: 'i' must be a number, got key",
    "exception_prototxt_12": "parameter 'shape': parameter 'dim': must be an integer, got inf",
    "exception_tf-op_05": "layer 'in0' (Placeholder): its dtype must be a type, got [2, 7, 6, 4]",
    "exception_tf-op_15": "layer 'in0' (Placeholder): its shape must be a list of sizes, got ['",
    "exception_tf-op_16": "layer 'Conv2D/filter' (Const): has shape (2, 0, 4, 3) of float32, which is 0 bytes",
    "foreign_ir-legacy_01": "layer 'p' (Pooling): its output has 1099511627776 cells; the limit is 67108864",
    "foreign_ir_01": "layer 'k' (Const): has 70 axes; the limit is 32",
    "foreign_keras-json_01": "the model has no layers",
    "foreign_keras-json_02": "surrogates not allowed",
    "foreign_onnx-node_01": "layer 'Expand_0' (Expand): shape must be integers, got float32",
    "foreign_onnx-node_02": "layer 'Loop_8' (Loop): its body must have the step and the condition as inputs",
    "foreign_onnx-node_05": "no reduction of a scalar",
    "foreign_onnx-node_06": "output 0 has values that are not numbers",
    "foreign_onnx-node_07": "output 0 has values that are not numbers",
    "foreign_onnx-node_08": "layer 'Tile_0' (Tile): repeats must be 2 numbers, got 1",
    "foreign_pbtxt_01": "no array has shape (0, 4611686018427387904, 4611686018427387904)",
    "foreign_prototxt_01": "no array has shape (0, 4611686018427387904, 4611686018427387904)",
    "foreign_prototxt_02": "has 70 axes; the limit is 32",
    "foreign_prototxt_03": "deploy.prototxt:3: 'bottom' must be a quoted string, got a message",
    "hung_onnx-node_00": "its loop and those inside it exceed the limit of 60000 steps",
    "mem_keras-json_00": OUTPUTS,
    "nofile_caffemodel_01": "has the character '\\x12', which XML cannot have",
    "nofile_ir-legacy_05": "output 'l_y.1' is 'l_y.1', which no layer produces",
    "nofile_ir-legacy_06": "output 'Result.1' is 'Result.1', which no layer produces",
    "nofile_onnx-node_00": "an input or output of the network has no name",
    "nofile_pbtxt_04": "layer 'Identity_1' (Identity): reads 'Split:3', which no layer before it produces",
    "repeat_0757f0baad": OUTPUTS,
    "repeat_13c9d96fc1": "size must be at least 1, got 0",
    "repeat_149bef7d0f": "takes an input (N, C, ...), got shape ()",
    "repeat_168fcbab12": "mask must be a tensor, got {",
    "repeat_237883823d": "input 1 must be a tensor, got True",
    "repeat_2d5f680442": "its dtype must be a type, got [2, 3, 4, 5]",
    "repeat_3fc5175764": PERM,
    "repeat_5213186b1d": NOT_TEXT,
    "repeat_5dcfec8e11": "m.pbtxt: an input or output of the network has no name",
    "repeat_5e4eb5893c": "input 1 must be a tensor, got 1",
    "repeat_6b9e7214bb": "returns a ndarray, which is not a tensor of numbers",
    "repeat_789418f931": "input 0 must be a tensor, got {",
    "repeat_799fc8a3f4": "m.pbtxt:104: 'i' must be a number, got op",
    "repeat_800ea9288f": "layer 'op' (Bidirectional): input 0 must be a tensor, got {",
    "repeat_8fe5de4df2": "its shape must be a list of sizes, got ['",
    "repeat_a3358c0280": "the nested model has no outputs",
    "repeat_c0f151bb25": NOT_TEXT,
    "repeat_ccda1299ff": NOT_TEXT,
    "repeat_cd1bd6894f": "Corrupt input data",
    "repeat_d0177b8a8e": "returns a dict, which is not a tensor of numbers",
    "repeat_dca59aabb6": NOT_TEXT,
    "repeat_e786430d65": NOT_TEXT,
    "repeat_fcce3e5420": "layer 'op' (ConvLSTM3D): input 0 must be a tensor, got -1",
    "signal11_keras-h5_02": LOST,
    "signal11_keras-h5_cycle": LOST,
    "timeout_keras-json_02": OUTPUTS,
    "timeout_keras-json_03": OUTPUTS,
    "timeout_keras-json_fuzz": OUTPUTS,
    "timeout_keras-op_00": OUTPUTS,
    "timeout_keras-op_01": OUTPUTS,
}


LONG = ("hung_onnx-node_00",)
"""Those that take many seconds: the loops of this one run 60,000 steps, each time that it is traced."""


@pytest.mark.parametrize(
    "folder", [pytest.param(f, marks=pytest.mark.breadth) if f in LONG else f for f in (*RIGHT, *REFUSED)]
)
def test_damaged_file_is_refused_or_correct(folder: str, trials: Trials) -> None:
    files = {path.name: path.read_bytes() for path in (DATA / folder).iterdir()}
    model = next(name for name in MODELS if name in files)
    weights = WEIGHTS.get(model)
    written = ["o.onnx", "o.xml", "o.prototxt"]
    found = trials.files(files, model, weights if weights in files else None, write=written)
    if folder in RIGHT:
        assert found.end == "ok", found
    else:
        assert found.fine and found.text.startswith(model), found
        assert REFUSED[folder] in found.text
    assert found.peak < 1000, "MiB"


def test_every_damaged_file_has_an_expectation() -> None:
    assert {path.name for path in DATA.iterdir()} == {*RIGHT, *REFUSED}
