"""anylayer view shows the ONNX form of a network in Netron, with the figures of its nodes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer

from .conftest import Run

MODEL = ["net.prototxt", "-l", "layers.py", "-e", "onnxruntime"]


def metadata(path: Path) -> dict[str, dict[str, str]]:
    """Return the metadata of each node of an ONNX file."""
    return {n.name: {p.key: p.value for p in n.metadata_props} for n in onnx.load(path).graph.node}


def test_nodes_have_the_figures_of_the_report(small: Path, anylayer_command: Run) -> None:
    anylayer_command("view", *MODEL, "-o", "view.onnx")
    onnx.checker.check_model(onnx.load("view.onnx"), full_check=True)
    found = metadata(small / "view.onnx")
    assert found["half"]["layer"] == "half (Times)" and found["half"]["params"] == "factor=0.5"
    assert found["half"]["runs in"] == "engine, layers.py" and found["half"]["precision"] == "float32"
    assert found["half"]["error"].endswith("agrees (against NumPy)")
    times = [float(m["time"].split(" ms")[0]) for m in found.values() if "time" in m]
    assert times and all(t >= 0 for t in times)
    assert {m["layer"].split(" ")[0] for m in found.values() if m} >= {"half", "means", "flat"}


def test_file_computes_what_the_network_computes(small: Path, anylayer_command: Run) -> None:
    anylayer_command("view", *MODEL, "--no-run", "-o", "view.onnx")
    x = np.load("x.npy")
    session = onnxruntime.InferenceSession("view.onnx")
    got = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"data": x})))
    want = anylayer.read("net.prototxt", layers=["layers.py"]).compile("numpy")(x)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-6)
    assert "time" not in metadata(small / "view.onnx")["half"]


def test_network_with_a_host_call_has_no_onnx_form(small: Path, anylayer_command: Run) -> None:
    done = anylayer_command("view", "net.prototxt", "-l", "host.py", "-o", "view.onnx", status=1)
    assert "host.py:25" in done.stderr and not (small / "view.onnx").exists()


def test_missing_netron_is_named(small: Path, anylayer_command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "anylayer.libraries.netron", None)
    monkeypatch.delattr("anylayer.libraries.netron", raising=False)
    done = anylayer_command("view", *MODEL, status=1)
    assert done.stderr == "the viewer needs Netron: pip install netron; or write the file: -o FILE.onnx\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_signal_ends_the_viewer(small: Path, number: signal.Signals, status: int) -> None:
    pytest.importorskip("netron", reason="netron is not installed")
    command = [sys.executable, "-m", "anylayer", "view", *MODEL, "--no-run", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("Ctrl-C ends it" in line for line in process.stderr)
            process.send_signal(number)
            assert process.wait(timeout=60) == status
        finally:
            process.kill()


def test_netron_asks_no_other_address(small: Path) -> None:
    pytest.importorskip("netron", reason="netron is not installed")
    pytest.importorskip("playwright", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    from anylayer.libraries import netron

    anylayer.read("net.prototxt", layers=["layers.py"]).write("net.onnx", verify=False)
    address = netron.serve(small / "net.onnx", None, browse=False)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(address)
            page.wait_for_selector("#target .node, #canvas .node", state="attached", timeout=30_000)
            page.wait_for_timeout(300)
            browser.close()
    finally:
        netron.stop()
    assert {urlparse(url).hostname for url in asked if url.startswith("http")} == {"localhost"}
