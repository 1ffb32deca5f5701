"""Full reports: measured figures, pictures, the code of layers, and the page that shows them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import anylayer
from anylayer.errors import InputError
from anylayer.inspect.boxes import draw_detections
from anylayer.inspect.report import Report

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{script}}",
    "<!--<script>",
    "a&lt;b",
    "\u2028'`${alert(3)}",
]
NET = """name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "twice" type: "Twice" bottom: "conv" top: "twice" }
layer { name: "branchy" type: "Branchy" bottom: "twice" top: "branchy" }
layer { name: "score" type: "InnerProduct" bottom: "branchy" top: "score"
  inner_product_param { num_output: 7 } }
layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" }
"""


class Twice:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * 2]


class Branchy:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        if float(str(inputs[0].mean())) > 1e9:
            return [inputs[0] + 1]
        return [inputs[0]]


def read(folder: Path, text: str = NET) -> anylayer.Net:
    (folder / "net.prototxt").write_text(text, "utf-8")
    return anylayer.read(folder / "net.prototxt", layers=[("Twice", Twice), ("Branchy", Branchy)])


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> anylayer.Net:
    return read(tmp_path_factory.mktemp("full")).fill()


@pytest.fixture(scope="module")
def report(net: anylayer.Net) -> Report:
    return net.report(engine="onnxruntime", seconds=0.05)


def data_of(page: str) -> Any:
    """Return the data that a page embeds, as a browser reads them: up to the first end of a script."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_times_are_those_of_the_profile(report: Report) -> None:
    assert report.measured is not None and report.measured.profile is not None
    profile = report.measured.profile
    expected = sum(c.seconds for c in profile.costs if c.where not in ("call", "reorder"))
    rows = {n.name: n.figures for n in report.nodes}
    found = sum(f.seconds for f in rows.values() if f is not None and f.seconds is not None)
    assert found == pytest.approx(expected, rel=1e-12)
    relu = rows["relu"]
    assert relu is not None and relu.seconds is None and relu.together == ("conv", "relu")


def test_nodes_are_compared_with_numpy(report: Report) -> None:
    checks = {n.name: n.figures.check for n in report.nodes if n.figures is not None}
    assert all(c is not None and c.ok for c in checks.values())
    assert checks["branchy"] is not None and "test_full.py" in checks["branchy"].note


def test_operators_are_counted_before_and_after_rewriting(report: Report) -> None:
    rows = {n.name: n.figures for n in report.nodes}
    conv, twice = rows["conv"], rows["twice"]
    assert conv is not None and conv.recorded == {"Conv": 1} and conv.compiled == {"Conv": 1}
    assert twice is not None and twice.recorded == {"Mul": 1}


def test_code_marks_the_line_that_a_host_call_names(report: Report) -> None:
    assert report.measured is not None
    branchy = next(c for c in report.measured.code if c.type == "Branchy")
    lines = dict(enumerate(branchy.text.splitlines(), branchy.line))
    assert [lines[n].strip() for n in branchy.marked] == ["if float(str(inputs[0].mean())) > 1e9:"]
    assert [name for name, _ in branchy.calls] == ["branchy"]


def test_vector_output_lists_its_largest_values(net: anylayer.Net, report: Report) -> None:
    assert report.measured is not None
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8), np.float32)  # the report's noise, seed 0
    want = net.compile("numpy")(x)["prob"][0]
    prob = next(p for p in report.measured.pictures if p.role == "output")
    assert [i for i, _ in prob.top] == list(np.argsort(-want)[:5])
    np.testing.assert_allclose([v for _, v in prob.top], np.sort(want)[::-1][:5], rtol=1e-5)


def test_picture_of_an_input_is_its_array_scaled(net: anylayer.Net) -> None:
    x = np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8)
    report = net.report({"data": x}, engine="onnxruntime", seconds=0.05, compare=False)
    assert report.measured is not None and not report.measured.verified
    shown = next(p for p in report.measured.pictures if p.role == "input")
    assert shown.png is not None
    got = np.asarray(Image.open(BytesIO(shown.png)))[:, :, ::-1]  # RGB to the array's blue, green, red
    np.testing.assert_allclose(got, x[0].transpose(1, 2, 0) * 255 / 191, atol=0.5)


DETECTIONS = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "boxes" type: "Boxes" bottom: "data" top: "boxes" }
"""


class Boxes:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        rows = np.array([[0, 1, 0.9, 0, 0.5, 0.5, 1], [0, 3, 0.2, 0, 0, 1, 1]], np.float32)
        return [rows.reshape(1, 1, 2, 7) + 0 * inputs[0].reshape(-1)[:1]]


def test_detections_are_drawn_on_the_input(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(DETECTIONS, "utf-8")
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Boxes", Boxes)])
    report = net.report({"data": np.zeros((1, 3, 80, 80), np.float32)}, engine="onnxruntime", seconds=0.05)
    assert report.measured is not None
    shown = next(p for p in report.measured.pictures if p.role == "output")
    assert shown.what.startswith("1 of 2 detections") and shown.png is not None and shown.size == (80, 80)
    pixels = np.asarray(Image.open(BytesIO(shown.png)))
    assert pixels[60, 40].tolist() == [0, 128, 0] and not pixels[:20].any()


def test_only_the_most_likely_detections_are_drawn() -> None:
    rows = np.zeros((1, 1, 30, 7), np.float32)
    rows[..., 1], rows[..., 2], rows[..., 5:] = 1, np.linspace(0.6, 0.9, 30), np.linspace(0.2, 0.9, 30)[:, None]
    image, what = draw_detections(np.zeros((100, 100, 3), np.uint8), rows)
    assert what.startswith("the 20 most likely of 30 detections")
    assert image[88:92, 50].any() and not image[20:43, 20:43].any()


def test_chosen_maps_are_drawn(net: anylayer.Net) -> None:
    report = net.report(engine="onnxruntime", seconds=0.05, compare=False, blobs=["conv"])
    assert report.measured is not None
    assert [p.name for p in report.measured.pictures if p.role == "map"] == ["conv"]
    with pytest.raises(InputError, match=r"there is no blob 'conf'; did you mean 'conv'"):
        net.report(blobs=["conf"])


def test_network_that_cannot_run_has_a_report_with_the_reason(tmp_path: Path) -> None:
    report = read(tmp_path).report()
    assert report.measured is not None and report.measured.profile is None
    assert len(report.measured.gaps) == 1 and "nothing was run: " in report.measured.gaps[0]
    assert "conv" in report.measured.gaps[0]
    assert len(data_of(report.to_html())["nodes"]) == 6


def test_conversion_shows_types_before_and_after(net: anylayer.Net, tmp_path: Path) -> None:
    plain = anylayer.read(net.network.source, layers=[("Twice", Twice), ("Branchy", Twice)]).fill()
    done = plain.write(tmp_path / "net.onnx")
    report = plain.report(engine="onnxruntime", seconds=0.05, compare=False, conversion=done)
    assert report.measured is not None and report.measured.change is not None
    change = report.measured.change
    assert change.before["Convolution"] == 1 and change.after["Conv"] == 1 and "Twice" not in change.after
    assert "Constant" not in change.after  # the weights
    assert change.files == [(str(tmp_path / "net.onnx"), (tmp_path / "net.onnx").stat().st_size)]
    assert [c["ok"] for c in change.checks] == [True]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(tmp_path: Path, name: str) -> None:
    quoted = name.replace('"', '\\"')
    report = read(tmp_path, NET.replace('"prob"', f'"{quoted}"')).report()
    page = report.to_html()
    data = data_of(page)
    assert data["nodes"][-1]["name"] == name and data["outputs"][0]["name"] == name
    assert "<img" not in page and "alert(1)</script>" not in page
    assert page.count("<script") == 2 and page.count("</script") == 2
    frame = report._repr_html_()
    assert frame.count("<") == 2 and "allow-same-origin" not in frame


def test_page_allows_its_own_script_and_nothing_else(report: Report) -> None:
    page = report.to_html()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    script = re.search(r"<script>(.*?)</script>", page, re.S)
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert policy is not None and script is not None and style is not None
    for part, text in (("script-src", script[1]), ("style-src", style[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{part} 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none'; img-src data:;")
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {
        "http://www.w3.org/2000/svg"
    }  # a name, not an address


def test_notebook_shows_the_page_in_a_frame(net: anylayer.Net, report: Report) -> None:
    assert report._repr_html_().startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html&gt;')
    assert net.inspect()._repr_html_().startswith("<table>")


def test_saved_page_replaces_nothing_when_the_folder_is_wrong(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == report.to_html()
    with pytest.raises(InputError, match="is a folder"):
        report.save(tmp_path)


def test_json_of_a_report_has_the_figures(report: Report) -> None:
    found = report.to_dict()
    assert found["measured"]["engine"] == "onnxruntime"
    assert found["nodes"][0]["figures"]["recorded"] == {"Conv": 1}
    assert "figures" not in anylayer.read(report.source).inspect().to_dict()["nodes"][0]
