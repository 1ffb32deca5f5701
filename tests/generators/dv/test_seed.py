"""The example of DMP's page on custom layers: the struct, the params, the fields and the callback of PriorBox."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, absent

from anylayer.api import Net
from anylayer.convert.generation import Generation
from anylayer.generators import dv
from anylayer.layer import load_layers
from anylayer.network import Network, Node, TensorType

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, dv._COMPILERS)), reason="there is no C++ compiler")
SEED = "seeds/004_5232de50eb636744.txt"
CONFIG = {
    "img_size": [300, 300],
    "min_size": 10.0,
    "max_size": 30.0,
    "aspect_ratios": [1.0, 1.0, 2, 0.5, 3, 0.3333333333333333],
    "variances": [0.1, 0.1, 0.2, 0.2],
    "clip": True,
}
STRUCT = """\
struct custom_param_PriorBox
{
  int   img_size[2];
  float min_size;
  float max_size;
  float aspect_ratios[6];
  float variances[4];
  bool  clip;
};

void custom_callback_PriorBox(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);
"""
LAYER = """\
  static custom_param_PriorBox custom_param = {
    { 300, 300,  },
    10.0,
    30.0,
    { 1.0, 1.0, 2, 0.5, 3, 0.3333333333333333,  },
    { 0.1, 0.1, 0.2, 0.2,  },
    true,
  };

  struct fpga_layer& layer = get_layer(0);
  layer.type = LT_CUSTOM;
"""
FIELDS = """\
  layer.input_dim[0] = 38;
  layer.input_dim[1] = 38;
  layer.input_dim[2] = 256;
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8664;
  layer.output_dim[1] = 8;
  layer.output_dim_size = 2;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = &custom_callback_PriorBox;
  layer.custom_param = &custom_param;
"""


class PriorBox:
    """The boxes of ssd-keras: one row of 8 numbers per box, computed box by box."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.params = params

    def getMemoryShapes(self, inputs: Any) -> Any:
        _, rows, columns, _ = inputs[0]
        return [[1, rows * columns * len(self.params["aspect_ratios"]), 8]]

    def forward(self, inputs: Any) -> Any:
        p, (_, rows, columns, _) = self.params, inputs[0].shape
        found = []
        for y in range(rows):
            for x in range(columns):
                cx, cy = (x + 0.5) * p["img_size"][0] / columns, (y + 0.5) * p["img_size"][1] / rows
                for i, ratio in enumerate(p["aspect_ratios"]):
                    side = np.sqrt(p["min_size"] * p["max_size"]) if ratio == 1 and i else p["min_size"]
                    w, h = (side * np.sqrt(ratio) / 2, side / np.sqrt(ratio) / 2)
                    box = np.array([cx - w, cy - h, cx + w, cy + h]) / [*p["img_size"], *p["img_size"]]
                    found.append([*(np.clip(box, 0, 1) if p["clip"] else box), *p["variances"]])
        return [np.array([found], np.float32)]


def generate(folder: Path, config: dict[str, Any] = CONFIG, size: int = 38, **options: Any) -> Generation:
    kind = TensorType.of((1, size, size, 256))
    node = Node("priors", "PriorBox", ["data"], ["priors"], {"config": config}, layout="NHWC")
    network = Network("SSDFacePerson", "keras", {"data": kind}, [node], {"priors": "priors"})
    return Net(network, load_layers([("PriorBox", PriorBox)])).generate("dv", folder / "project", **options)


def difference(printed: str) -> float:
    """Return the difference that the project's test prints."""
    found = re.search(r"largest difference (\S+),", printed)
    assert found is not None
    return float(found[1])


def test_struct_params_and_fields_equal_the_page(tmp_path: Path) -> None:
    folder = generate(tmp_path, test=False).folder
    header, source = ((folder / f"SSDFacePerson_gen.{end}").read_text() for end in ("h", "cpp"))
    assert STRUCT in header and LAYER in source and FIELDS in source
    assert "//Layer_0: Custom Layer\n//\t->: priors\nvoid CSSDFacePerson::Layer_0()\n{\n" in source
    assert "}//end of  Layer_0\n" in source


@pytest.mark.one_per()
@needs_compiler
@pytest.mark.parametrize("config", [CONFIG, CONFIG | {"clip": False, "img_size": [200, 300]}])
def test_callback_equals_that_of_the_page(config: dict[str, Any], tmp_path: Path) -> None:
    done = generate(tmp_path, config)
    assert difference(done.report[0]) <= 1e-6
    if reason := absent(SEED):
        pytest.skip(reason)
    code = (REFERENCE / SEED).read_text().split("inline float box_clip")[1].split("\n}\n\n:")[0]
    code = "inline float box_clip" + code + "\n}\n"
    code = code.replace("void *param)", "void *param, uint8_t *io_ptr)").replace(
        "boxes_v);\n}", "boxes_v, io_ptr);\n}"
    )
    head = '#include <cassert>\n#include <cmath>\n#include "SSDFacePerson_gen.h"\nusing namespace std;\n'
    head += "struct prior_box_t { float x0, y0, x1, y1, xv, yv, wv, hv; };\n"
    (done.folder / "page.cpp").write_text(head + code)
    source = done.folder / "SSDFacePerson_gen.cpp"
    source.write_text(source.read_text().replace("void custom_callback_PriorBox(", "void replaced("))
    files = ["test_network.cpp", "SSDFacePerson_gen.cpp", "page.cpp", "host/dmp_network.cpp"]
    subprocess.run(["c++", "-std=c++11", "-O1", "-Ihost", *files, "-o", "t"], cwd=done.folder, check=True)
    ran = subprocess.run(["./t"], cwd=done.folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and difference(ran.stdout) <= 1e-6


def test_boxes_that_the_loop_does_not_reproduce_become_a_table(tmp_path: Path) -> None:
    class Shifted(PriorBox):
        def forward(self, inputs: Any) -> Any:
            return [super().forward(inputs)[0] + np.float32(0.01)]

    kind = TensorType.of((1, 2, 2, 8))
    node = Node("priors", "PriorBox", ["data"], ["priors"], {"config": CONFIG}, layout="NHWC")
    network = Network("Other", "keras", {"data": kind}, [node], {"priors": "priors"})
    done = Net(network, load_layers([("PriorBox", Shifted)])).generate("dv", tmp_path / "project", test=False)
    source = (done.folder / "Other_gen.cpp").read_text()
    assert "box_param" not in source and "compute_PriorBox" in source
