"""Read 39 deploy files from public repositories and infer their shapes, or refuse them for a valid reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import DialectError, LayerError

FILES = sorted((REFERENCE / "prototxt").glob("*.prototxt"))
pytestmark = needs_data("prototxt")

# files whose layers mean different things in different forks: a part of the name -> the fork that wrote it
DIALECTS = {
    "ChenYingpeng+caffe-yolov3__": "mobilenet-yolo",
    "MobileNet-YOLO__models__darknet__darknet19": "mobilenet-yolo",
    "gklz1982+caffe-yolov2__examples__indoor": "yolov2",
}
# a template whose placeholders ("num_output: cls3x") are not numbers
TEMPLATES = {"chuanqi305+MobileNet-SSD__template": "parameter 'num_output': must be an integer, got 'cls3x'"}


def entry(table: dict[str, str], file: Path) -> str | None:
    return next((value for part, value in table.items() if part in file.name), None)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_shapes_are_inferred_or_refused(file: Path) -> None:
    net = anylayer.read(file, dialect=entry(DIALECTS, file))
    assert net.unknown == []
    report = net.inspect()
    refusal = entry(TEMPLATES, file)
    if refusal is not None:
        assert any(refusal in note for note in report.notes)
        return
    assert [n.name for n in report.nodes if n.where not in ("engine", "constant")] == []
    assert all(kind is not None for kind in net.outputs.values())
    assert report.totals["macs"] > 0


@pytest.mark.parametrize("file", [f for f in FILES if entry(DIALECTS, f)], ids=lambda f: f.stem)
def test_ambiguous_dialect_is_asked_for(file: Path) -> None:
    with pytest.raises(
        DialectError, match=r"layer '.*' \((Upsample|Reorg)\): '.*' can mean \d things, give dialect="
    ):
        anylayer.read(file).compile(engine="onnxruntime")


def test_template_is_refused_by_field() -> None:
    file = next(f for f in FILES if entry(TEMPLATES, f))
    with pytest.raises(
        LayerError, match=r"layer '.*' \(Convolution\): parameter 'num_output': must be an integer"
    ):
        anylayer.read(file).compile(engine="onnxruntime")


# totals published or counted by hand for well known networks: millions of weights and multiply-adds
KNOWN = {
    "BVLC+caffe__models__bvlc_googlenet__deploy": (6.998, 1583),
    "hujie-frank+SENet__models__SE-ResNet-50": (28.1, 3860),
    "shicai+MobileNet-Caffe": (4.25, 569),
    "farmingyard+ShuffleNet__shufflenet_v2_1x": (2.29, 145),
}


@pytest.mark.parametrize("part", KNOWN)
def test_totals_match_published_numbers(part: str) -> None:
    file = next(f for f in FILES if part in f.name)
    net = anylayer.read(file)
    ((name, kind),) = net.inputs.items()
    report = net.inspect({name: (1, *kind.shape[1:])})
    weights, macs = KNOWN[part]
    assert report.totals["weights"] / 1e6 == pytest.approx(weights, rel=0.02)
    assert report.totals["macs"] / 1e6 == pytest.approx(macs, rel=0.02)
