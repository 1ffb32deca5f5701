"""IRs that OpenVINO writes for real networks, with float32 and with float16 weights, match OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from tools.reference import REFERENCE, absent

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import ALL

MODELS = [
    "models/ultraface_RFB-320/version-RFB-320_without_postprocessing.onnx",
    *(
        f"tf_keras/{name}.pb"
        for name in (
            "blog", "deconv_upsample", "flatten_dense", "resize_bilinear", "resize_bilinear_align",
            "resize_bilinear_factor", "stride_same_even",
        )
    ),
]  # fmt: skip


@pytest.mark.one_per("halved")
@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_network_matches_openvino(name: str, halved: bool, tmp_path: Path) -> None:
    if reason := absent(name):
        pytest.skip(reason)
    path = tmp_path / "net.xml"
    ov.save_model(ov.convert_model(str(REFERENCE / name)), str(path), compress_to_fp16=halved)
    core = ov.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    net = anylayer.read(path)
    shapes = _shapes(net)
    random = np.random.default_rng(0)
    feed = {name: random.random(shape).astype(np.float32) for name, shape in shapes.items()}
    want = list(compiled(list(feed.values())).values())
    for engine in ALL:
        got = net.compile(engine=engine, shapes=shapes)(feed)
        for output, array in zip(got, want):
            assert_same(got[output], np.array(array), f"{engine}, {output}")


def _shapes(net: anylayer.Net) -> dict[str, tuple[int, ...]]:
    open_ = net.network.open
    return {
        name: tuple(d or 1 for d in open_[name]) if name in open_ else known.shape
        for name, known in net.inputs.items()
        if known is not None or name in open_
    }
