"""IR v2 to v7: networks translated to an IR match what real Caffe computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

from anylayer.api import Net, read
from anylayer.readers.caffe import read as read_caffe
from anylayer.readers.openvino import read as read_ir
from anylayer.testing import assert_same

from .from_caffe import CannotSpell, spell
from .ir import Ir

GOLDEN = REFERENCE / "golden"
LAYERS = (
    "ArgMax", "BatchNorm", "Clip", "Concat", "Convolution", "Deconvolution", "DepthwiseConvolution", "ELU",
    "Eltwise", "Flatten", "InnerProduct", "LRN", "MVN", "Nets", "Normalize", "PReLU", "PSROIPooling", "Permute",
    "Pooling", "Power", "ROIPooling", "ReLU", "Scale", "Sigmoid", "Slice", "Softmax", "TanH", "Tile",
)  # fmt: skip
CASES = sorted(p.parent for name in LAYERS for p in (GOLDEN / name).glob("*/case.json"))
UNSUPPORTED = {
    "BatchNorm/batch_stats": "computes the batch's own statistics",
    "Convolution/kernel_gt_input_s2": "a kernel larger than its input",
    "Convolution/multi_bottom": "several inputs of one layer",
    "Eltwise/sum_inplace_CAFFE_BUG": "rewrites its input in place",
    "Pooling/max_mask": "a second output",
    "Pooling/max_mask_pad": "a second output",
}
"""Cases that an IR cannot express, and why."""
DIALECTS = {"mobilenet_ssd": "ssd"}
MODELS = ["lenet", "mobilenet_ssd", "shufflenet_v1_g3", "squeezenet_v1.1"]


def caffe(folder: Path) -> Net:
    about = json.loads((folder / "case.json").read_text())
    weights = folder / "weights.caffemodel"
    network = read_caffe(
        folder / "deploy.prototxt", weights if weights.exists() else None, dialect=about.get("dialect")
    )
    return Net(network, {})


def arrays(folder: Path, kind: str) -> dict[str, np.ndarray]:
    found = {p.stem.removeprefix(f"{kind}_"): np.load(p) for p in sorted(folder.glob(f"{kind}_*.npy"))}
    return {name: np.asarray(a, np.float32) for name, a in found.items()}


def spelled(folder: Path, version: int) -> tuple[Ir, Net] | None:
    about = json.loads((folder / "case.json").read_text())
    if about.get("rejected") or f"{folder.parent.name}/{folder.name}" in UNSUPPORTED:
        return None
    net = caffe(folder)
    try:
        return spell(net, version), net
    except CannotSpell:
        return None


def own_names(net: Net) -> dict[str, str]:
    """Map Caffe's names of values to the IR's."""
    found = {name: name for name in net.network.inputs}
    for node in net.network.nodes:
        many = len(node.outputs) > 1
        found.update({name: f"{node.name}.{i}" if many else name for i, name in enumerate(node.outputs)})
    return found


@needs_data("golden")
@pytest.mark.parametrize("version", [2, 4, 7])
def test_layers_match_caffe(version: int, tmp_path: Path) -> None:
    done = 0
    for folder in CASES:
        found = spelled(folder, version)
        if found is None:
            continue
        ir, source = found
        names = own_names(source)
        net = Net(read_ir(ir.save(tmp_path)), {})
        want = arrays(folder, "output")
        got = net.compile(engine="numpy", outputs=[names[name] for name in want])(arrays(folder, "input"))
        for name, array in want.items():
            assert_same(got[names[name]], array, f"{folder.parent.name}/{folder.name}, {name}", 2e-5)
        done += 1
    assert done >= 90


@needs_data("models")
@pytest.mark.parametrize("name", MODELS)
def test_networks_match_caffe(name: str, tmp_path: Path) -> None:
    folder = REFERENCE / "models" / name
    network = read_caffe(folder / "deploy.prototxt", folder / "weights.caffemodel", dialect=DIALECTS.get(name))
    ir = spell(Net(network, {}), 4)
    net = read(ir.save(tmp_path))
    got = net.compile(engine="onnxruntime")(arrays(folder, "input"))
    for output, want in arrays(folder, "output").items():
        assert_same(got[output], want, output, 1e-4)
