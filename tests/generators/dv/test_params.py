"""Params of custom layers that the generated code reads: layers share a callback, and each has its own numbers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.generators import dv
from tests.generators.dv.test_project import CONV, DATA, FOUR, PRIORS, dims, layer
from tests.generators.dv.test_project import generate as generate_mine

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, dv._COMPILERS)), reason="there is no C++ compiler")
CALL = r"""
#include <cstdio>
#include "SmallNet_gen.h"

int main() {
  CSmallNet network;
  if (!network.Initialize() || !network.LoadWeights("SmallNet_weights.bin")) return 1;
  uint16_t *data = static_cast<uint16_t*>(network.get_network_input_addr_cpu());
  for (int i = 0; i < COUNT; ++i) data[hw_offset(i % W, i / W % H, i / W / H, W, H, C)] = float_to_half(0.25f * i);
  custom_param_TYPE params[] = { PARAMS };
  for (custom_param_TYPE& param : params) {
    network.get_layer(0).custom_param = &param;
    if (!network.RunNetwork()) return 1;
    std::vector<float> found;
    network.get_final_output(found);
    for (float x : found) std::printf("%.9g ", x);
    std::puts("");
  }
}
"""


def source_of(folder: Path, end: str = "cpp") -> str:
    return (folder / "project" / f"SmallNet_gen.{end}").read_text()


def called(folder: Path, type_: str, params: str, shape: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """Return what the first layer computes with each of these structs, one row per struct."""
    c, h, w = shape
    texts = {"TYPE": type_, "PARAMS": params, "COUNT": str(c * h * w), "W": str(w), "H": str(h), "C": str(c)}
    text = re.sub(r"\b(COUNT|PARAMS|W|H|C)\b|TYPE", lambda m: texts[m[0]], CALL)
    (folder / "project" / "call.cpp").write_text(text)
    files = ["call.cpp", "SmallNet_gen.cpp", "host/dmp_network.cpp"]
    subprocess.run(["c++", "-std=c++11", "-Ihost", *files, "-o", "call"], cwd=folder / "project", check=True)
    ran = subprocess.run(["./call"], cwd=folder / "project", capture_output=True, text=True, check=True)
    return np.array([line.split() for line in ran.stdout.splitlines()], np.float32)


class Scaled:
    """Use a float, an integer and a list; take a shortcut for 0."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.params = params

    def forward(self, inputs: Any) -> Any:
        x, p = inputs[0], self.params
        y = x if p["shift"] == 0 else x + p["shift"]
        return [y * np.array(p["factors"], np.float32)[:, None, None] + p["times"] + np.sqrt(p["hidden"])]


SCALED = "mine_param {{ shift: {} times: {} factors: {} factors: {} hidden: 4 }}"


def generate(folder: Path, text: str) -> None:
    (folder / "net.prototxt").write_text(DATA % dims(1, 2, 2, 3) + text)
    anylayer.read(folder / "net.prototxt", layers=[("Mine", Scaled)]).generate("dv", folder / "project")


@needs_compiler
def test_layers_whose_params_differ_in_numbers_share_a_callback_that_reads_them(tmp_path: Path) -> None:
    text = layer("a", "Mine", "data", SCALED.format(0.5, 3, 0.1, 2))
    generate(tmp_path, text + layer("b", "Mine", "a", SCALED.format(-1.5, 4, 0.7, -1)))
    assert source_of(tmp_path).count("void custom_callback_Mine") == 1
    header = source_of(tmp_path, "h")
    assert "// other code may be needed where these are 0 or 1: factors, shift\n" in header
    assert "// numbers in the code, which does not read these: hidden\nstruct custom_param_Mine\n" in header

    one = tmp_path / "one"
    one.mkdir()
    generate(one, text)
    rows = [(0.5, 3, (0.1, 2.0)), (-2.25, 7, (1.5, -3.0))]
    structs = ", ".join(f"{{ {s}f, {t}, {{ {a}f, {b}f }}, 4 }}" for s, t, (a, b) in rows)
    got = called(one, "Mine", structs, (2, 2, 3))
    x = 0.25 * np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    for row, (shift, times, factors) in zip(got, rows):
        want = (x + shift) * np.array(factors)[:, None, None] + times + 2
        np.testing.assert_allclose(row, want.transpose(1, 2, 0).reshape(-1), rtol=1e-6, atol=1e-6)


class Thresholds:
    """Compare in double precision, which a struct of floats cannot hold."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.params = params

    def forward(self, inputs: Any) -> Any:
        return [(inputs[0].astype(np.float64) * np.float64(self.params["by"])).astype(np.float32)]


def test_numbers_that_the_struct_does_not_hold_exactly_stay_in_the_code(tmp_path: Path) -> None:
    for by, reads in (("0.1", False), ("0.125", True)):
        text = DATA % dims(1, 2, 2, 3) + layer("a", "Mine", "data", f"mine_param {{ by: {by} }}")
        (tmp_path / "net.prototxt").write_text(text)
        net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Thresholds)])
        net.generate("dv", tmp_path / "project", test=False)
        assert ("params.by" in source_of(tmp_path)) == reads
        assert ("does not read these: by" in source_of(tmp_path, "h")) != reads


@needs_compiler
def test_built_in_layers_read_their_params(tmp_path: Path) -> None:
    power = "power_param { power: %s scale: %s shift: %s }"
    text = layer("a", "Power", "data", power % (2.5, 0.5, 1.5)) + layer("b", "Power", "a", power % (1.5, 0.25, 3))
    done = generate_mine(tmp_path, text)
    assert done.untested == "" and source_of(tmp_path).count("void custom_callback_Power") == 1
    assert {f"params.{name}" for name in ("power", "scale", "shift")} <= set(
        re.findall(r"params\.\w+", source_of(tmp_path))
    )


@needs_compiler
def test_boxes_with_several_sizes_and_steps_share_a_callback(tmp_path: Path) -> None:
    sizes = "min_size: 4 min_size: %d max_size: 9 max_size: 11 aspect_ratio: %s"
    boxes = [
        ("one", "conv", sizes % (5, 2), FOUR + " step: 1.5"),
        ("two", "data", sizes % (6, 3), FOUR + " step_w: 1.25 step_h: 2"),
        ("three", "conv", "min_size: 4", "variance: 0.1 offset: 0.25"),
    ]
    text = layer("conv", "Convolution", "data", CONV)
    for name, source, size, more in boxes:
        text += layer(name, "PriorBox", f"{source} data", PRIORS % (size, "true", more))
    done = generate_mine(tmp_path, text + layer("all", "Concat", "one two three", "concat_param { axis: 2 }"))
    assert done.untested == "" and "largest difference" in done.report[0]
    header = source_of(tmp_path, "h")
    assert header.count("void custom_callback_PriorBox") == 2, "lists of other lengths are another struct"
    assert "  float min_size[2];\n  float max_size[2];\n  float aspect_ratios[4];\n" in header
    assert "  bool  clip;\n  float step[2];\n};" in header and "  bool  clip;\n  float offset;\n};" in header
    assert not re.search(r"(-?\d+\.\d+f?,\s*){12}", source_of(tmp_path)), "there is a table"
