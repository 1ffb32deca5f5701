"""Plans with two engines: where a network is cut, when "auto" keeps them, and what they compute."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import anylayer
from anylayer.cli import main
from anylayer.compile.plan import GraphStep, Plan
from anylayer.compile.segments import EnginePart, segments, with_parts
from anylayer.engines import load_engine
from anylayer.errors import EngineError
from anylayer.graph import Graph
from anylayer.inspect.profile import profile
from anylayer.inspect.profile_listing import lines
from anylayer.runtime import auto as auto_file
from anylayer.runtime import pairs as pairs_file

pytestmark = pytest.mark.needs("openvino")

SSD = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 32 dim: 32 } } }
layer { name: "body" type: "Convolution" bottom: "data" top: "body"
        convolution_param { num_output: 8 kernel_size: 3 stride: 4 pad: 1 } }
layer { name: "loc" type: "Convolution" bottom: "body" top: "loc"
        convolution_param { num_output: 8 kernel_size: 1 } }
layer { name: "loc_perm" type: "Permute" bottom: "loc" top: "loc_perm" permute_param { order: [0, 2, 3, 1] } }
layer { name: "loc_flat" type: "Flatten" bottom: "loc_perm" top: "loc_flat" }
layer { name: "conf" type: "Convolution" bottom: "body" top: "conf"
        convolution_param { num_output: 6 kernel_size: 1 } }
layer { name: "conf_perm" type: "Permute" bottom: "conf" top: "conf_perm" permute_param { order: [0, 2, 3, 1] } }
layer { name: "conf_rows" type: "Reshape" bottom: "conf_perm" top: "conf_rows"
        reshape_param { shape { dim: [0, -1, 3] } } }
layer { name: "prob" type: "Softmax" bottom: "conf_rows" top: "prob" softmax_param { axis: 2 } }
layer { name: "conf_flat" type: "Flatten" bottom: "prob" top: "conf_flat" }
layer { name: "prior" type: "PriorBox" bottom: "body" bottom: "data" top: "prior"
        prior_box_param { min_size: 8 max_size: 12 variance: 0.1 } }
layer { name: "found" type: "DetectionOutput" bottom: "loc_flat" bottom: "conf_flat" bottom: "prior" top: "found"
        detection_output_param { num_classes: 3 nms_param { nms_threshold: 0.45 top_k: 20 } keep_top_k: 10
                                 code_type: CENTER_SIZE confidence_threshold: 0.2 } }
"""
TAIL = {"loc_perm", "loc_flat", "conf_perm", "conf_rows", "prob", "conf_flat", "found"}
X = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    (tmp_path / "ssd.prototxt").write_text(SSD)
    return anylayer.read(tmp_path / "ssd.prototxt").fill()


Timed = Callable[..., None]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """A function that sets what is measured: of the whole network, of its segments that select boxes, and of the
    pair compared with `best`."""

    def set_(network: Mapping[str, float], tail: Mapping[str, float], ratio: float = 0.5) -> None:
        def measured(calls: Mapping[str, Any], seconds: float = 1.0) -> dict[str, float]:
            for call in calls.values():
                call()
            return {n: (1.0 if n == "0" else ratio) if "0" in calls else tail[n] for n in calls}

        monkeypatch.setattr(auto_file, "_measure", lambda runners, plan: {n: network[n] for n in runners})
        monkeypatch.setattr(pairs_file, "timed_in_turns", measured)

    return set_


BODY_ON_ORT = {"onnxruntime": 10.0, "openvino": 11.0}, {"onnxruntime": 4.0, "openvino": 1.0}


def test_network_is_cut_before_the_layers_that_no_weights_depend_on(net: anylayer.Net) -> None:
    plan = net.compile("onnxruntime").plan
    assert plan is not None
    body, tail = segments(plan)
    names = [{plan.nodes[i].node.name for i in piece.nodes} for piece in (body, tail)]
    assert names == [{"body", "loc", "conf"}, TAIL]
    assert (body.heavy, body.selects) == (True, False) and (tail.heavy, tail.selects) == (False, True)


def test_two_engines_are_kept_where_they_are_faster(net: anylayer.Net, timed: Timed) -> None:
    timed(*BODY_ON_ORT)
    model = net.compile("auto")
    assert [(engine, set(layers)) for engine, layers in model.parts] == [
        ("onnxruntime", {"body", "loc", "conf"}),
        ("openvino", TAIL),
    ]
    assert model.engine == "onnxruntime"
    assert model.timings == {"onnxruntime": 10.0, "openvino": 11.0, "onnxruntime+openvino": 5.0}
    want = net.compile("numpy")(X)["found"]
    assert want.shape[2] > 1
    for _ in range(2):  # the second call uses the first one's memory again
        assert np.abs(model(X)["found"] - want).max() < 1e-5


@pytest.mark.parametrize(
    ("network", "tail", "ratio"),
    [
        ({"onnxruntime": 10.0, "openvino": 11.0}, {"onnxruntime": 1.0, "openvino": 1.0}, 0.5),
        ({"onnxruntime": 10.0, "openvino": 16.0}, {"onnxruntime": 1.0, "openvino": 4.0}, 0.5),
        (*BODY_ON_ORT, 0.995),
    ],
)
def test_one_engine_is_kept_where_two_are_not_faster(
    net: anylayer.Net, timed: Timed, network: dict[str, float], tail: dict[str, float], ratio: float
) -> None:
    timed(network, tail, ratio)
    model = net.compile("auto")
    assert model.parts == [] and model.timings == network and model.engine == "onnxruntime"


def test_named_engine_runs_everything(net: anylayer.Net, timed: Timed) -> None:
    timed(*BODY_ON_ORT)
    assert net.compile("onnxruntime").parts == []


def test_wrong_pair_is_not_used(net: anylayer.Net, timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(*BODY_ON_ORT)
    monkeypatch.setattr(pairs_file, "trusted", lambda runs, arrays, definition: (["0"], {}))
    assert net.compile("auto").parts == []


def test_later_shapes_run_on_the_same_engines(net: anylayer.Net, timed: Timed) -> None:
    timed(*BODY_ON_ORT)
    model = net.compile("auto")
    x = np.random.default_rng(1).standard_normal((1, 3, 48, 40)).astype(np.float32)
    got, want = model(x)["found"], net.compile("numpy")(x)["found"]
    assert got.shape == want.shape and np.abs(got - want).max() < 1e-5
    assert [engine for engine, _ in model.parts] == ["onnxruntime", "openvino"]


def only_graph(plan: Plan | None) -> Graph:
    """Return the graph of a plan that is not cut, or of one whose parts are joined again."""
    assert plan is not None
    (step,) = plan.whole.steps
    assert isinstance(step, GraphStep)
    return step.graph


def test_error_of_one_engine_leads_to_a_single_engine(
    net: anylayer.Net, timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(*BODY_ON_ORT)
    model = net.compile("auto")
    program = type(load_engine("openvino").compile(only_graph(model.plan)))

    def stops(*arguments: Any) -> Any:
        raise EngineError("engine 'openvino' failed")

    monkeypatch.setattr(program, "__call__", stops)
    assert np.abs(model(X)["found"] - net.compile("numpy")(X)["found"]).max() < 1e-5
    assert model.parts == [] and model.engine == "onnxruntime"


def test_whole_undoes_with_parts(net: anylayer.Net) -> None:
    plan = net.compile("onnxruntime").plan
    assert plan is not None and plan.whole is plan
    cut = with_parts(plan, [EnginePart("onnxruntime", s.nodes) for s in segments(plan)])
    assert len(cut.steps) == 2
    assert len(only_graph(cut).ops) == len(only_graph(plan).ops)


def test_plan_with_other_layers_stays_whole(net: anylayer.Net) -> None:
    plan = net.compile("onnxruntime").plan
    assert plan is not None
    assert with_parts(plan, [EnginePart("openvino", segments(plan)[0].nodes)]) is plan


def test_profile_names_the_engine_of_each_part(net: anylayer.Net, timed: Timed) -> None:
    timed(*BODY_ON_ORT)
    found = profile(net, {"data": X}, seconds=0.02)
    engines = {name: cost.engine for cost in found.costs for name in cost.layers}
    assert engines["body"] == "onnxruntime" and engines["found"] == "openvino"
    assert "onnxruntime runs 3 layers up to 'conf', openvino 7 layers up to 'found'" in lines(found, None)
    assert {n["engine"] for n in found.to_dict()["nodes"]} == {"onnxruntime", "openvino"}


def test_run_prints_the_parts(net: anylayer.Net, timed: Timed, tmp_path: Path) -> None:
    timed(*BODY_ON_ORT)
    np.save(tmp_path / "x.npy", X)
    net.write(tmp_path / "ssd.onnx")
    arguments = ["run", str(tmp_path / "ssd.onnx"), "--input", f"data={tmp_path / 'x.npy'}"]
    result = CliRunner().invoke(main, arguments)
    text = r"^onnxruntime runs 3 layers up to '.*', openvino \d+ layers up to '.*'$"
    assert re.search(text, result.stderr, re.MULTILINE)
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert [p["engine"] for p in json.loads(result.stdout)["parts"]] == ["onnxruntime", "openvino"]
