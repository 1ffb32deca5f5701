"""Test the calculations of the benchmark. No test depends on measured times."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import (
    caffemodel,
    cuts,
    generated,
    guard,
    loops,
    measure,
    native_onnx,
    onnx_forms,
    reasons,
    report,
    results,
    rules,
    targets,
)
from benchmarks.__main__ import arguments
from benchmarks.functions import Case, cases
from benchmarks.guard import Guard, Probe, Sample, best_fma, figure, mode, plain
from benchmarks.networks import NETWORKS
from benchmarks.operators import OPERATORS
from benchmarks.parts.loading import huge, middle, vgg16
from benchmarks.parts.networks import fill, with_shape, without_layers
from benchmarks.parts.operators import found
from benchmarks.processes import Worker, WorkerError
from benchmarks.prototxt import Prototxt, Word
from benchmarks.runners import anylayer as anylayer_runner
from benchmarks.runners import anylayer_function, python_tools
from benchmarks.setup import difference
from benchmarks.table import Table

import anylayer
from anylayer.engines import engines
from tests.generators.pytorch.test_examples import RUNS
from tests.loops.harness import needs_compiler


def sample(seconds: float, latency: float = 60, fma: float = 1e-4, foreign: float = 0.0) -> Sample:
    return Sample(seconds, Probe(latency, fma), Probe(latency, fma), foreign, False)


class TestGuard:
    def test_near_cores_are_fast_mode(self) -> None:
        assert mode(sample(1), 1e-4) == "fast"

    def test_far_cores_are_slow_mode(self) -> None:
        assert mode(sample(1, latency=250), 1e-4) == "slow"

    def test_one_far_probe_means_slow_mode(self) -> None:
        assert mode(Sample(1, Probe(60, 1e-4), Probe(250, 1e-4), 0, False), 1e-4) == "slow"

    def test_second_process_follows_only_its_own_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []
        monkeypatch.setattr(guard, "_trips", lambda shared, mine, its: seen.append((mine, its)) or 0.0)
        monkeypatch.setattr(Guard, "_ask", lambda self, what: seen.append(what) or b".")
        with Guard() as subject:
            subject._latency()
        assert seen == [b"w", (0, 0), b"p", (0, 64)]

    @pytest.mark.parametrize("bad", [{"latency": 12000}, {"fma": 1.2e-4}, {"foreign": 0.2}])
    def test_other_processes_disturb(self, bad: dict[str, float]) -> None:
        assert mode(sample(1, **bad), 1e-4) == "disturbed"

    def test_stolen_time_disturbs(self) -> None:
        assert mode(Sample(1, Probe(60, 1e-4), Probe(60, 1e-4), 0, True), 1e-4) == "disturbed"

    def test_figure_is_median_of_fast_samples(self) -> None:
        samples = [sample(1.0), sample(9.0, latency=250), sample(3.0), sample(2.0), sample(7.0, foreign=0.5)]
        got = figure(samples, best_fma(samples))
        assert got is not None
        assert (got.seconds, got.low, got.high, got.mode) == (2.0, 1.0, 3.0, "fast")
        assert (got.samples, got.discarded) == (3, 2)

    def test_figure_without_fast_samples_names_its_mode(self) -> None:
        got = figure([sample(5.0, latency=250), sample(1.0, latency=9000)], 1e-4)
        assert got is not None and (got.seconds, got.mode, got.discarded) == (5.0, "slow", 1)
        assert figure([], 1e-4) is None

    def test_saved_samples_are_short(self) -> None:
        assert plain([sample(0.001234567, foreign=0.123)], 1e-4) == [[0.001235, "disturbed", 60, 1e-4, 0.12]]


class TestTurns:
    def field(self, *times: tuple[str, str, list[float]]) -> list[measure.Contestant]:
        return [measure.Contestant(c, call, None, [sample(s) for s in seconds]) for c, call, seconds in times]

    def test_each_round_begins_with_another_contestant(self) -> None:
        a, b, c = self.field(("a", "", []), ("b", "", []), ("c", "", []))
        assert measure.rotated([a, b, c], 1) == [b, c, a]
        assert measure.rotated([a, b, c], 3) == [a, b, c]

    def test_call_far_behind_in_two_rounds_is_dropped(self) -> None:
        field = self.field(("ort", "x", [1, 1]), ("ort", "y", [2, 2]), ("ort", "z", [2, 1]), ("ov", "x", [9, 9]))
        assert [(c.column, c.call) for c in measure.hopeful(field, 1e-4)] == [
            ("ort", "x"),
            ("ort", "z"),
            ("ov", "x"),
        ]

    def test_disturbed_rounds_drop_no_call(self) -> None:
        field = self.field(("ort", "x", [1, 1]), ("ort", "y", [2, 2]))
        assert len(measure.hopeful(field, 1e-5)) == 2

    def test_figure_of_engine_is_its_fastest_call(self) -> None:
        got = measure.columns(self.field(("ort", "x", [3, 1, 2]), ("ort", "y", [5, 5, 5])))
        assert (got["ort"]["call"], got["ort"]["seconds"], got["ort"]["mode"]) == ("x", 2, "fast")

    def test_failed_call_leaves_other_calls_of_its_engine(self) -> None:
        field = self.field(("ort", "x", [1]), ("ort", "y", [3, 3]), ("cv", "x", []))
        field[0].error, field[2].error = "it fell over", "it never stood"
        got = measure.columns(field)
        assert (got["ort"]["call"], "error" in got["ort"]) == ("y", False)
        assert got["cv"] == {"calls": {}, "error": "it never stood"}


class TestDifference:
    def test_is_relative_to_each_outputs_largest_value(self) -> None:
        want = {"a": np.array([100.0, 1.0]), "b": np.array([1.0])}
        assert difference({"a": np.array([101.0, 1.0]), "b": np.array([1.0])}, want) == pytest.approx(0.01)

    @pytest.mark.parametrize("got", [{}, {"a": np.zeros(3)}, {"a": np.array([np.nan, 0])}])
    def test_is_infinite_for_incomparable_outputs(self, got: dict[str, Any]) -> None:
        assert difference(got, {"a": np.zeros(2)}) == float("inf")

    def test_detections_compare_in_any_order_with_or_without_image(self) -> None:
        rows = np.array([[0, 2, 0.9, 1, 2, 3, 4], [0, 1, 0.5, 5, 6, 7, 8], [0, 1, 0.8, 9, 9, 9, 9]], float)
        np.testing.assert_array_equal(found(rows[None, None]), found(rows[::-1, 1:]))
        assert found(rows)[:, :2].tolist() == [[1, 0.8], [1, 0.5], [2, 0.9]]


class TestCaffeFiles:
    def test_caffemodel_round_trip(self, tmp_path: Path) -> None:
        net = Prototxt("small")
        x = net.input("data", (1, 3, 8, 8))
        x = net.layer("conv", "Convolution", x, convolution_param={"num_output": 200, "kernel_size": 3})
        net.layer("fc", "InnerProduct", x, inner_product_param={"num_output": 5, "bias_term": False})
        (tmp_path / "m.prototxt").write_text(net.text())
        noise = np.random.default_rng(0)
        shapes = {"conv": [(200, 3, 3, 3), (200,)], "fc": [(5, 7200)]}
        blobs = {name: [noise.standard_normal(s, np.float32) for s in sizes] for name, sizes in shapes.items()}
        layers = [("conv", "Convolution", blobs["conv"]), ("fc", "InnerProduct", blobs["fc"])]
        caffemodel.write(tmp_path / "m.caffemodel", "small", layers)
        read = anylayer.read(tmp_path / "m.prototxt", tmp_path / "m.caffemodel").network
        got = {node.name: node.blobs for node in read.nodes if node.blobs}
        assert got.keys() == blobs.keys()
        for name, want in blobs.items():
            assert len(got[name]) == len(want)
            for a, b in zip(got[name], want):
                np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize(
        ("value", "want"), [(0, b"\0"), (127, b"\x7f"), (300, b"\xac\x02"), (2**31, b"\x80\x80\x80\x80\x08")]
    )
    def test_varint(self, value: int, want: bytes) -> None:
        assert caffemodel.varint(value) == want

    def test_text(self) -> None:
        net = Prototxt("n")
        net.layer("a", "Pooling", "x", ["y", "m"], pooling_param={"pool": Word("MAX"), "kernel_size": 2})
        assert net.text() == (
            'name: "n"\nlayer {\n  name: "a"\n  type: "Pooling"\n  bottom: "x"\n  top: "y"\n  top: "m"\n'
            "  pooling_param {\n    pool: MAX\n    kernel_size: 2\n  }\n}\n"
        )

    def test_input_shape_is_replaced(self) -> None:
        assert with_shape("input_dim: 10 input_dim: 3\nlayer { dim: 7 }", (1, 3)) == (
            "input_dim: 1 input_dim: 3\nlayer { dim: 7 }"
        )

    def test_removed_layers_leave_nothing_behind(self) -> None:
        text = 'layer { type: "A" }\nlayer { type: "B" p { q { r: 1 } } }\nlayer { type: "A" }\n'
        assert without_layers(text, "B") == 'layer { type: "A" }\n\nlayer { type: "A" }\n'

    def test_filling_gives_every_layer_weights(self, tmp_path: Path) -> None:
        net = Prototxt("n")
        x = net.input("data", (1, 2, 4, 4))
        up = {"num_output": 2, "group": 2, "kernel_size": 2, "stride": 2, "bias_term": False}
        up["weight_filler"] = {"type": "bilinear"}
        x = net.layer("up", "Deconvolution", x, convolution_param=up)
        net.layer("scale", "Scale", x, scale_param={"bias_term": True})
        (tmp_path / "m.prototxt").write_text(net.text())
        fill(tmp_path / "m.prototxt", tmp_path / "m.caffemodel")
        nodes = anylayer.read(tmp_path / "m.prototxt", tmp_path / "m.caffemodel").network.nodes
        assert {n.name: [b.shape for b in n.blobs] for n in nodes if n.blobs} == {
            "up": [(2, 1, 2, 2)],
            "scale": [(2,), (2,)],
        }


class TestNetworks:
    def test_number_of_networks(self) -> None:
        assert len({source.name for source in NETWORKS}) == 14

    @pytest.mark.parametrize("source", [s for s in NETWORKS if s.make], ids=lambda s: s.name)
    def test_generated_networks_can_be_read(self, source: Any, tmp_path: Path) -> None:
        (tmp_path / "m.prototxt").write_text(source.make())
        net = anylayer.read(tmp_path / "m.prototxt")
        totals = net.inspect().totals
        assert totals["unknown"] == 0 and totals["host"] == 0
        assert set(source.outputs) <= {name for node in net.network.nodes for name in node.outputs}

    def test_mobilenet_v2_has_size_of_paper(self, tmp_path: Path) -> None:
        source = next(s for s in NETWORKS if s.name == "mobilenet_v2")
        assert source.make is not None
        (tmp_path / "m.prototxt").write_text(source.make())
        assert anylayer.read(tmp_path / "m.prototxt").inspect().totals["macs"] == pytest.approx(300e6, rel=0.01)

    @pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
    def test_operator_is_one_known_layer(self, operator: Any, tmp_path: Path) -> None:
        (tmp_path / "m.prototxt").write_text(operator.text())
        here = Path(sys.modules[onnx_forms.__name__].__file__ or "").parent
        layers = [text.replace("=", f"={here}/") for text in operator.layers]
        net = anylayer.read(tmp_path / "m.prototxt", dialect=operator.dialect, layers=layers)
        assert [node.name for node in net.network.nodes if node.name not in operator.inputs()] == ["y"]
        assert list(net.inputs) == list(operator.inputs()) and net.outputs["y"] is not None

    def test_number_of_operators(self) -> None:
        assert len({operator.name for operator in OPERATORS}) == 15
        assert all(any(o.name.startswith(key) for o in OPERATORS) for key in native_onnx.FORMS)

    @pytest.mark.parametrize(("make", "size"), [(vgg16, 553e6), (huge, 2.78e9)])
    def test_large_files_have_size_in_their_name(self, make: Any, size: float) -> None:
        _, layers, _ = make()
        values = sum(int(np.prod(shape)) for _, _, shapes in layers for shape in shapes)
        assert 4 * values == pytest.approx(size, rel=0.01)


def test_forms_for_direct_calls_compute_what_anylayer_computes(tmp_path: Path) -> None:
    import onnxruntime

    text = """
        layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 8, 6, 6] } } }
        layer { name: "norm" type: "LRN" bottom: "data" top: "norm" lrn_param { alpha: 0.5 } }
        layer { name: "relu" type: "ReLU" bottom: "norm" top: "relu" }
    """
    (tmp_path / "m.prototxt").write_text(text)
    x = np.random.default_rng(0).standard_normal((1, 8, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "x.npz", data=x)
    loaded = anylayer_runner.load(
        {
            "model": str(tmp_path / "m.prototxt"),
            "inputs": str(tmp_path / "x.npz"),
            "engine": "onnxruntime",
            "threads": 1,
            "export": str(tmp_path),
        }
    )
    want = loaded.outputs("call")["relu"]
    forms = onnx_forms.forms(loaded.facts["onnx"]["forms"]["onnxruntime"], "onnxruntime")
    assert set(forms) >= {"plain", "LRN as convolution"}
    for path in forms.values():
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        got = session.run(None, {session.get_inputs()[0].name: x})[0]
        np.testing.assert_allclose(got, want, atol=1e-5 * float(np.abs(want).max()))


def test_batch_normalization_is_rewritten_before_a_network_is_written_for_ncnn(tmp_path: Path) -> None:
    text = """
        layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 3, 6, 6] } } }
        layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
                convolution_param { num_output: 4 kernel_size: 3 } }
        layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
    """
    model, weights = tmp_path / "m.prototxt", tmp_path / "m.caffemodel"
    model.write_text(text)
    fill(model, weights)
    np.savez(tmp_path / "x.npz", data=np.ones((1, 3, 6, 6), np.float32))
    files = {"model": str(model), "weights": str(weights), "inputs": str(tmp_path / "x.npz")}
    loaded = anylayer_runner.load({**files, "engine": "onnxruntime", "threads": 1, "export": str(tmp_path)})
    lines = Path(loaded.facts["onnx"]["ncnn"]["param"]).read_text().splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["Input", "Convolution"]


def test_lrn_as_convolution_equals_lrn() -> None:
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    shape = [1, 8, 5, 5]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    node = helper.make_node("LRN", ["x"], ["y"], size=5, alpha=2.0, beta=0.75, bias=1.5)
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)

    def run(proto: onnx.ModelProto) -> np.ndarray:
        return ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, {"x": x}
        )[0]

    want = run(model)
    other = onnx_forms.without_lrn(model)
    assert other is not None and "LRN" not in [n.op_type for n in other.graph.node]
    np.testing.assert_allclose(run(other), want, atol=1e-6 * float(np.abs(want).max()))
    assert onnx_forms.without_lrn(other) is None


def row(part: str, name: str, **columns: float | str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for column, value in columns.items():
        if isinstance(value, str):
            made[column] = {"error": value}
        else:
            made[column] = {"seconds": value, "mode": "fast", "kept": 3, "discarded": 1, "call": "call"}
    return {"part": part, "name": name, "columns": made}


class TestReport:
    def test_ratios_and_missed_targets(self) -> None:
        good = row("networks", "a", anylayer=1.02e-3, onnxruntime=2e-3, openvino=1e-3, ncnn=5e-3, opencv=4e-3)
        late = row("networks", "b", anylayer=1.5e-3, onnxruntime=1e-3, openvino="refused", opencv="peers absent")
        table, behind = report.networks(results.merge(results.empty(), [good, late]))
        assert [list(r) for r in table.rows] == [
            ["a", "1.02", "-", "2", "1", "5", "4", "1.02", "1.02", "3.92"],
            ["b", "1.5", "-", "1", "-", "-", "absent", "1.50", "1.50 !", "-"],
        ]
        assert behind == [("networks", "b", "1.50 x the fastest engine (1.02)")]
        assert table.notes == ["7 figures were measured in the machine's fast mode; 7 samples were discarded."]

    def test_reason_names_the_differences_between_samples_of_a_row(self) -> None:
        def calls(**seconds: float) -> dict[str, Any]:
            return {"calls": {n.replace("_", " "): {"seconds": s, "mode": "fast"} for n, s in seconds.items()}}

        made = row("networks", "a", anylayer=2.0e-3)
        made["columns"]["anylayer"]["facts"] = {"engine": "onnxruntime", "timings": {"onnxruntime": 1.6e-3}}
        made["columns"]["onnxruntime"] = calls(plain=1.8e-3, whole_operators=1.7e-3)
        made["columns"]["openvino"] = calls(plain=1.5e-3)
        assert reasons.reason(made) == (
            "OpenVINO is faster than ORT (auto measured ORT 1.6 ms) by 200 us; the form 'whole operators' saves "
            "the direct call 100 us; anylayer's call adds to the direct one 200 us"
        )
        assert reasons.reason(row("networks", "a", anylayer=1e-3)) == ""
        assert "does not check indices" in reasons.reason({"name": "detout_sparse_ssd300", "columns": {}})

    def test_reason_compares_no_calls_of_different_modes(self) -> None:
        made = row("networks", "a", anylayer=3.08e-3)
        made["columns"]["anylayer"]["facts"] = {"engine": "onnxruntime"}
        slow, fast = {"seconds": 3.82e-3, "mode": "slow"}, {"seconds": 2.93e-3, "mode": "fast"}
        made["columns"]["onnxruntime"] = {"calls": {"plain": slow, "plain, bound": fast}}
        assert reasons.reason(made) == "anylayer's call adds to the direct one with bound arrays 150 us"

    def test_row_on_two_engines_names_both(self) -> None:
        made = row("networks", "a", anylayer=1e-3, onnxruntime=1e-3)
        made["columns"]["anylayer"]["facts"] = {"engine": "openvino", "parts": ["openvino", "onnxruntime"]}
        table, _ = report.networks(results.merge(results.empty(), [made]))
        assert table.rows[0][2] == "OpenVINO + ORT"

    def test_slow_and_disturbed_figures_are_marked(self) -> None:
        made = row("networks", "a", anylayer=2e-3, onnxruntime=1e-3)
        made["columns"]["anylayer"]["mode"] = "disturbed"
        table, behind = report.networks(results.merge(results.empty(), [made]))
        assert table.rows[0][1] == "2 d"
        assert behind[0][2].endswith("; disturbed, measure again")

    def test_best_cell_of_operator_is_named(self) -> None:
        made = row("operators", "o", anylayer=2e-6, onnxruntime=3e-6, openvino=2.5e-6, ncnn=1e-6, opencv=9e-6)
        table, behind = report.operators(results.merge(results.empty(), [made]))
        assert list(table.rows[0][-2:]) == ["2.00 !", "ncnn: call"]
        assert behind == [("operators", "o", "2.00 x ncnn: call (1.05)")]

    def test_overhead_is_a_difference(self) -> None:
        rows = [
            row("overhead", "one_relu_onnxruntime", anylayer=7e-6, onnxruntime=4e-6),
            row("overhead", "host_call_onnxruntime", **{"with": 30e-6, "without": 8e-6, "forward": 2e-6}),
        ]
        table, behind = report.overhead(results.merge(results.empty(), rows))
        assert [list(r)[1:] for r in table.rows] == [["3.0 us", "30 us"], ["20.0 us !", "10 us"]]
        assert [name for _, name, _ in behind] == ["host_call_onnxruntime"]

    def test_loading(self) -> None:
        def run(read: float, anonymous: int) -> dict[str, Any]:
            seconds = {"ready": 9.0, "read": read, "compile": 0.2, "first frame": 0.1, "second frame": 0.05}
            return {"seconds": seconds, "memory": {"first frame": {"anonymous": anonymous}}, "peak": 10**9}

        runs = [run(0.1, 300 * 10**6), run(0.3, 310 * 10**6), run(0.2, 320 * 10**6)]
        column = middle(runs)
        assert column["seconds"] == pytest.approx(0.5) and column["anonymous"] == 310 * 10**6
        made = {"part": "loading", "name": "v", "bytes": 500 * 10**6, "columns": {"anylayer onnxruntime": column}}
        table, behind = report.loading(results.merge(results.empty(), [made]))
        assert list(table.rows[0]) == (
            ["v", "anylayer onnxruntime", "0.200", "0.200", "0.100", "0.500", "50.0", "310", "0.62", "1000"]
        )
        assert [text for _, _, text in behind] == [
            "read in 0.200 s (0.05)",
            "0.62 x the file in anonymous memory (0.4)",
        ]

    def test_layer_in_the_middle_is_a_difference(self) -> None:
        times = {"whole": 30e-6, "alone": 12e-6, "kernel": 2e-6, "bare": 10e-6, "hand": 25e-6, "cut": 15e-6}
        measured = results.merge(results.empty(), [row("middle", "m", **times)])
        table, behind = report.middle(measured)
        assert list(table.rows[0]) == ["m", "30", "12", "2", "16.0 !", "13.0", "3.0"]
        (missed,) = report.behind_table(behind, measured).rows
        assert missed[-1] == "an operator of the engine that is written by hand costs 13 us"
        assert behind == [("middle", "m", "a layer in C++ costs 16.0 us besides its kernel (10 us)")]
        del times["cut"]
        table, _ = report.middle(results.merge(results.empty(), [row("middle", "m", **times)]))
        assert table.rows[0][-1] == "-"

    def test_native_loop_is_compared_with_the_faster_host(self) -> None:
        made = row("native", "i", anylayer=11e-6, opencv=10e-6, openvino="absent")
        table, behind = report.native(results.merge(results.empty(), [made]))
        assert list(table.rows[0]) == ["i", "11", "10", "-", "1.10 !"]
        assert behind == [("native", "i", "1.10 x the faster of OpenCV and OpenVINO (1.05)")]

    def test_page_keeps_the_tables_of_parts_that_were_not_measured(self) -> None:
        late = row("networks", "squeeze", anylayer=2e-3, onnxruntime=1e-3)
        native = row("native", "i", anylayer=11e-6, opencv=10e-6)
        first = report.document(results.merge(results.empty(), [late]))
        page = report.updated(first, results.merge(results.empty(), [native]))
        titles = [line for line in page.splitlines() if line.startswith("#")]
        assert titles == ["# Performance", "## Whole networks", "## Layers in C++", "## Still behind"]
        assert "| squeeze | 2.00 x" in page and "| i | 1.10 x" in page
        better = row("native", "i", anylayer=9e-6, opencv=10e-6)
        again = report.updated(page, results.merge(results.empty(), [better]))
        assert [line for line in again.splitlines() if line.startswith("#")] == titles
        assert "| squeeze | 2.00 x" in again and "| i | 1.10 x" not in again
        assert "| i | 9 | 10 | - | 0.90 |" in again

    def test_page_names_machine_and_missed_targets(self) -> None:
        made = row("networks", "squeeze", anylayer=2e-3, onnxruntime=1e-3)
        text = report.document(results.merge(results.empty(), [made]))
        assert results.machine()["processor"] in text
        assert "| squeeze | 2.00 x the fastest engine (1.02) |  |" in text


class TestResults:
    def test_row_measured_again_replaces_old_row(self) -> None:
        first = results.merge(results.empty(), [row("a", "x", c=1.0), row("a", "y", c=2.0), row("b", "x", c=3.0)])
        second = results.merge(first, [row("a", "x", c=9.0)])
        assert [(r["part"], r["name"], r["columns"]["c"]["seconds"]) for r in second["rows"]] == [
            ("a", "x", 9.0),
            ("a", "y", 2.0),
            ("b", "x", 3.0),
        ]

    def test_rows_of_another_machine_are_dropped(self, tmp_path: Path) -> None:
        path = tmp_path / "r.json"
        results.save(path, results.merge(results.empty(), [row("a", "x", c=1.0)]))
        assert len(results.begin(path, None)["rows"]) == 1
        other = results.load(path)
        other["machine"]["processor"] = "abacus"
        results.save(path, other)
        assert results.begin(path, None)["rows"] == []


class TestTable:
    table = Table("Title", ["name", "ms"], [["a|b", "1.5"], ["c", "10"]], ["a note"])

    def test_text(self) -> None:
        assert self.table.text() == "Title\nname   ms\na|b   1.5\nc      10\n  a note\n"

    def test_markdown(self) -> None:
        assert self.table.markdown() == (
            "## Title\n\n| name | ms |\n| :-- | --: |\n| a\\|b | 1.5 |\n| c | 10 |\n\n- a note\n"
        )


class TestWorker:
    def test_runner_that_cannot_load_gives_reason(self) -> None:
        with Worker(sys.executable, "nothing") as worker, pytest.raises(WorkerError, match="No module named"):
            worker.ask(do="load", runner="nothing", spec={})

    def test_dead_worker_is_reported(self) -> None:
        with Worker(sys.executable, "opencv") as worker:
            worker.process.kill()
            worker.process.wait()
            with pytest.raises(WorkerError, match=r"opencv ended \(-9\)"):
                worker.ask(do="time")

    def test_host_call_layer_runs_in_python(self, tmp_path: Path) -> None:
        with Worker(sys.executable, "host_call") as worker:
            reply = worker.ask(
                do="load",
                runner="host_call",
                spec={"folder": str(tmp_path), "engine": "onnxruntime", "threads": 1},
            )
            assert reply["facts"] == {"host_calls": 1}
            np.testing.assert_array_equal(worker.outputs("with", tmp_path)["l2"], np.full((1, 16), 2, np.float32))


def test_engine_rules_have_a_case() -> None:
    rules.page()
    measured = {name for case in rules.CASES for name in case.rules.split()}
    fast = {r.apply.__name__ for r in rules.RULES if r.targets & {*engines()} and r.kind != "must"}
    assert fast and fast <= measured


def test_the_environment_of_the_peers_is_made_without_naming_a_part() -> None:
    assert arguments(["--make-peers"]).parts == []


def test_an_unknown_part_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["squeezenet"])
    assert "there is no part 'squeezenet'" in capsys.readouterr().err


@pytest.mark.breadth
@needs_compiler
def test_table_of_layers_has_the_errors_of_each_target() -> None:
    lines = generated.layer_table(["upsample", "crop"], ["dv", "cpp"])
    assert lines == [
        "| layer | dv | cpp |",
        "|---|---:|---:|",
        "| Upsample | 0.0e+00 | 0.0e+00 |",
        "| Crop | 0.0e+00 | 0.0e+00 |",
    ]


def test_docs_have_each_example_layer_and_each_target() -> None:
    page = generated.PAGE.read_text("utf-8")
    heads, _, *rows = page.split(generated.START)[1].split(generated.END)[0].strip().splitlines()
    assert [row.split(" | ")[0] for row in rows] == [
        f"| {name}" for name in dict.fromkeys(r[0] for r in RUNS.values())
    ]
    columns = heads.strip("| ").split(" | ")[1:]
    assert {*generated.COLUMNS} - {*columns} == set() and "openvino, OpenCL" in columns


@needs_compiler
def test_loops_written_by_hand_match_numpy(tmp_path: Path) -> None:
    for name in ("ROIAlign", "SpatialTransformer", "Yolo", "Crop"):
        layer, inputs = loops.layer_of(name, tmp_path), loops.LAYERS[name][2]
        want = [np.ascontiguousarray(y) for y in layer(inputs)]
        results = [np.full_like(y, 77) for y in want]
        loops.hand_written(name, inputs, results, tmp_path)()
        for got, expected in zip(results, want):
            assert np.abs(got - expected).max() <= loops.TOLERANCE * np.abs(expected).max(), name


def test_ratio_is_that_of_the_faster_layer_by_hand() -> None:
    times = {
        "A": {"NumPy": 4.0, "generated": 2.0, "loops": 1.0, "own": 1.6},
        "B": {"NumPy": 1.0, "generated": 2.0},
    }
    *_, first, second = targets.table_of("opencv", times)
    assert first == "| A | 4.000 | 2.000 | 1.000 | 1.600 | 2.0 | 2.00 |"
    assert second == "| B | 1.000 | 2.000 | - | - | 0.5 | - |"


def test_docs_have_the_speed_of_each_layer_in_each_target() -> None:
    page = targets.PAGE.read_text("utf-8").split(targets.START)[1].split(targets.END)[0]
    tables = [table.splitlines() for table in page.strip().split("\n\n")]
    assert [table[0].split(" | ")[0] for table in tables] == [f"| {title}" for title in targets.TARGETS.values()]
    for head, _, *rows in tables:
        assert [row.split(" | ")[0] for row in rows] == [f"| {name}" for name in loops.LAYERS], head


def test_networks_are_cut_where_the_fewest_bytes_pass(tmp_path: Path) -> None:
    text = Prototxt("net")
    x = text.input("data", (1, 8, 6, 6))
    for i in range(3):
        for name, outputs in ((f"wide{i}", 32), (f"narrow{i}", 4)):
            convolution = {"num_output": outputs, "kernel_size": 3, "pad": 1}
            x = text.layer(name, "Convolution", x, convolution_param=convolution)
    (tmp_path / "net.prototxt").write_text(text.text())
    plan = anylayer.read(tmp_path / "net.prototxt").fill().compile("onnxruntime").plan
    assert plan is not None
    passed = cuts._passed_bytes(plan, range(6))
    assert [passed[k] // (6 * 6 * 4) for k in range(1, 6)] == [32, 4, 32, 4, 32]
    order, found = cuts.positions(plan)
    assert order == [*range(6)] and {2, 4} <= {*found}


class TestFunctions:
    def test_functions_are_at_least_thirty_and_differ(self) -> None:
        names = [one.name for one in cases()]
        assert len({*names}) == len(names) >= 30

    @pytest.mark.parametrize("one", cases(), ids=lambda one: one.name)
    def test_every_function_runs_in_numpy_and_keeps_its_inputs(self, one: Case, tmp_path: Path) -> None:
        given = {str(i): x for i, x in enumerate(one.inputs(np.random.default_rng(1)))}
        np.savez(tmp_path / "inputs.npz", **given)
        loaded = python_tools.load({"tool": "numpy", "function": one.name, "inputs": str(tmp_path / "inputs.npz")})
        outputs = loaded.outputs("call")
        assert difference(loaded.outputs("call"), outputs) == 0.0
        assert all(np.isfinite(y).all() and y.size for y in outputs.values())

    @pytest.mark.needs("onnxruntime")
    @pytest.mark.parametrize("in_file", [False, True])
    def test_function_is_measured_as_a_layer_and_in_a_file(self, in_file: bool, tmp_path: Path) -> None:
        x = np.random.default_rng(1).standard_normal((64, 112, 112), np.float32)
        np.savez(tmp_path / "inputs.npz", x)
        spec = {"tool": "numpy", "function": "gelu_chain", "inputs": str(tmp_path / "inputs.npz"), "threads": 1}
        ours = {**spec, "engine": "onnxruntime", "file": str(tmp_path / "f.onnx") if in_file else None}
        loaded, want = anylayer_function.load(ours), python_tools.load(spec).outputs("call")
        assert difference(loaded.outputs("call"), want) < 1e-5

    def test_table_counts_what_is_at_most_as_slow_as_the_fastest_compiler(self) -> None:
        def row(name: str, **seconds: float) -> dict[str, Any]:
            columns = {c.replace("_", "."): {"seconds": s} for c, s in seconds.items()}
            return {"part": "python", "name": name, "columns": columns, "threads": 1, "processor": True}

        refused = {"anylayer": {"error": "TraceError"}, "numpy": {"seconds": 1.0}}
        rows = [
            row("a", anylayer=1.0, file=2.0, numpy=4.0, jax=1.5, torch_compile=1.2),
            row("b", anylayer=3.0, file=1.0, numpy=4.0, numba=2.0),
            {**row("c"), "columns": refused},
            {**row("d", anylayer=1.5, file=1.5, numpy=1.0, jax=2.0), "threads": 2, "processor": False},
        ]
        table, behind = report.python({**results.empty(), "rows": rows})
        assert [r[-2:] for r in table.rows] == [["0.83", "1.67 !"], ["1.50 !", "0.50"], ["-", "-"], ["1.50 !"] * 2]
        assert [(name, why.split()[0]) for _, name, why in behind] == [
            ("b", "1.50"),
            ("c", "not"),
            ("d", "1.50"),
        ]
        assert table.notes[0] == "Processor time with 1 threads: a, b, c; Time with 2 threads: d."
        counts = "At most as slow as the fastest: 1 of 4, 1 in a file. Without NumPy: 2 of 4."
        assert table.notes[1] == counts
