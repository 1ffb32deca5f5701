"""The operator Loop, which ONNX files have and which is recorded of loops, compared with NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError


def doubled_until(limit: str, rows: bool) -> bytes:
    """Return an ONNX model that doubles x while its sum is below 100, at most `limit` times."""
    onnx = pytest.importorskip("onnx")
    text = f"""
    <ir_version: 9, opset_import: ["" : 18]>
    g (float[3] x, int64 n) => (float[3] y{", float[k, 3] all" if rows else ""}) {{
        go = Constant <value = bool {{1}}> ()
        y{", all" if rows else ""} = Loop <body = b (int64 i, bool c, float[3] s)
            => (bool more, float[3] t{", float[3] row" if rows else ""}) {{
            t = Add (s, s)
            axes = Constant <value = int64[1] {{0}}> ()
            sum = ReduceSum <keepdims = 0> (t, axes)
            most = Constant <value = float {{100.0}}> ()
            more = Less (sum, most)
            {"row = Identity (t)" if rows else ""}
        }}> ({limit}, go, x)
    }}"""
    model: bytes = onnx.parser.parse_model(text).SerializeToString()
    return model


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("engine", ["numpy", "onnxruntime", "openvino"])
def test_a_loop_of_onnx_with_a_condition_on_data(engine: str, rows: bool, tmp_path: Path) -> None:
    file = tmp_path / "loop.onnx"
    file.write_bytes(doubled_until("n", rows))
    model = anylayer.read(file).compile(engine=engine)
    for first, n in ((1.0, 9), (60.0, 9), (1.0, 2), (1.0, 1), (-1.0, 20)):
        x = np.array([first, 0.5, -0.25], np.float32)
        want = [x]
        while len(want) <= n and (len(want) == 1 or want[-1].sum() < 100):
            want.append(want[-1] * 2)
        result = model({"x": x, "n": np.array(n)})
        np.testing.assert_array_equal(result["y"], want[-1])
        if rows:
            np.testing.assert_array_equal(result["all"], np.stack(want[1:]))


def test_last_bits_before_and_between_steps_are_kept(tmp_path: Path) -> None:
    """OpenVINO computes x / 7 as x * (1 / 7) if it may, so that 21 / 7 is less than 3."""
    text = """
    <ir_version: 9, opset_import: ["" : 18]>
    g (float[64] x, float[64] d, int64 n) => (float[64] y, float[64] counted) {
        go = Constant <value = bool {1}> ()
        three = Constant <value = float {3.0}> ()
        zero = Constant <value = float[64] {FIRST}> ()
        q = Div (x, d)
        y, counted = Loop <body = b (int64 i, bool c, float[64] s, float[64] before)
            => (bool c2, float[64] t, float[64] quotient) {
            is_first = GreaterOrEqual (q, three)
            is_next = GreaterOrEqual (before, three)
            one = Cast <to = 1> (is_first)
            two = Cast <to = 1> (is_next)
            sum = Add (one, two)
            t = Add (s, sum)
            quotient = Div (x, d)
            c2 = Identity (c)
        }> (n, go, zero, zero)
    }""".replace("FIRST", ", ".join(["9.0"] * 64))
    onnx = pytest.importorskip("onnx")
    file = tmp_path / "loop.onnx"
    onnx.save(onnx.parser.parse_model(text), file)
    d = np.arange(1, 65, dtype=np.float32)
    result = anylayer.read(file).compile(engine="openvino")({"x": d * 3, "d": d, "n": np.array(4)})
    np.testing.assert_array_equal(result["y"], np.full(64, 17))


def test_a_loop_without_a_step_returns_nothing_of_the_run_before(tmp_path: Path) -> None:
    """The body does not read its state `last`, so that OpenVINO leaves its first value out."""
    onnx = pytest.importorskip("onnx")
    text = """
    <ir_version: 9, opset_import: ["" : 18]>
    g (float[3] x, int64 n, bool go) => (float[3] y, float[3] z, float[k, 3] rows) {
        one = Constant <value = float {1.0}> ()
        y, z, rows = Loop <body = b (int64 i, bool c, float[3] s, float[3] last)
            => (bool c, float[3] t, float[3] s2, float[3] row) {
            t = Add (s, one)
            s2 = Mul (s, s)
            row = Neg (t)
        }> (n, go, x, x)
    }"""
    file = tmp_path / "loop.onnx"
    onnx.save(onnx.parser.parse_model(text), file)
    model = anylayer.read(file).compile(engine="openvino")
    x = np.array([1, 2, 3], np.float32)
    for n, go in ((0, True), (3, True), (0, True), (2, True), (5, False), (1, True)):
        result, steps = model({"x": x + n, "n": np.array(n), "go": np.array(go)}), n * go
        np.testing.assert_array_equal(result["y"], x + n + steps)
        np.testing.assert_array_equal(result["z"], (x + n + steps - 1) ** 2 if steps else x + n)
        rows = [-(x + n + k + 1) for k in range(steps)]
        np.testing.assert_array_equal(result["rows"], np.reshape(rows, (steps, 3)))


@pytest.mark.one_per("engine")
@pytest.mark.parametrize("engine", ["numpy", "onnxruntime", "openvino"])
@pytest.mark.parametrize("rows", [True, False])
def test_a_loop_without_a_limit_ends_with_an_error(engine: str, rows: bool, tmp_path: Path) -> None:
    file = tmp_path / "loop.onnx"
    file.write_bytes(doubled_until("", rows))
    model = anylayer.read(file).compile(engine=engine)
    x = np.array([1, 0.5, -0.25], np.float32)
    np.testing.assert_array_equal(model({"x": x})["y"], x * 128)
    with pytest.raises(AnyLayerError, match=r"limit of 30000 steps|idx=2147483647|out of range of 1"):
        model({"x": x * 0})
    np.testing.assert_array_equal(model({"x": x})["y"], x * 128)


def test_a_loop_without_a_limit_in_files(tmp_path: Path) -> None:
    """An IR cannot carry the check, so that the loop would end with other numbers."""
    file = tmp_path / "loop.onnx"
    file.write_bytes(doubled_until("", False))
    with pytest.raises(AnyLayerError, match="a loop without a limit of steps"):
        anylayer.read(file).write(tmp_path / "ir.xml", verify={"x": np.ones(3, np.float32)})
    assert not (tmp_path / "ir.xml").exists()
    anylayer.read(file).write(tmp_path / "other.onnx", verify={"x": np.ones(3, np.float32)})
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "other.onnx")
    (y,) = session.run(None, {"x": np.ones(3, np.float32), "n": np.array(0)})
    np.testing.assert_array_equal(y, np.full(3, 64))
    with pytest.raises(Exception, match="idx=2147483647"):
        session.run(None, {"x": np.zeros(3, np.float32), "n": np.array(0)})


def test_a_version_of_openvino_that_computes_loops_wrongly_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    (tmp_path / "net.onnx").write_bytes(doubled_until("n", rows=False))
    net = anylayer.read(tmp_path / "net.onnx")
    net.compile("openvino")
    monkeypatch.setattr(openvino, "__version__", "2026.3.0-22451")
    with pytest.raises(
        AnyLayerError, match=r"OpenVINO 2026\.3 computes loops wrongly; pip install 'openvino>=2026\.4'"
    ):
        net.compile("openvino")
