"""OpenCL kernels in commands: -c, --dump-kernels, --device, --no-user-kernels, --kernel-folder, layers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import anylayer
from anylayer.cli import main
from tests.kernels.opencl import COPY, configuration, ir_2018


def call(*words: object, code: int = 0) -> Result:
    """Run a command and check its exit status."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def test_inspect_shows_what_computes_a_layer_and_dumps_its_program(tmp_path: Path) -> None:
    net, kernels = ir_2018(tmp_path, "ReLU"), configuration(tmp_path, "ReLU")
    done = call("inspect", net, "-c", kernels, "--dump-kernels", tmp_path / "dump", "--json")
    (row,) = json.loads(done.stdout)["nodes"]
    assert (row["where"], row["origin"]) == ("native", str(kernels))
    assert row["reason"] == "OpenCL, BFYX, global 60; NumPy class: built-in"
    assert "// Layer it using Custom Layer ReLU\n" in (tmp_path / "dump" / "clDNN_program0.cl").read_text()


@pytest.mark.usefixtures("opencl_device")
def test_every_command_takes_a_configuration(tmp_path: Path) -> None:
    net, x = ir_2018(tmp_path, "ReLU"), tmp_path / "x.npy"
    doubling = configuration(tmp_path, "ReLU", COPY.replace("= x[i]", "= 2 * x[i]"))
    np.save(x, np.full((1, 3, 4, 5), 3, np.float32))
    engine = ("-c", doubling, "-e", "onnxruntime")
    call("run", net, *engine, "-i", x, "-o", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.full((1, 3, 4, 5), 6))
    shown = call("verify", net, *engine, code=1).stdout  # the kernel is not a ReLU
    assert "ReLU" in shown and "ok" not in shown
    bench = json.loads(call("bench", net, *engine, "-n", 2, "--json").stdout)
    assert bench["engines"]["onnxruntime"]["ms"]["runs"] == 2
    shown = call("profile", net, *engine, "--seconds", 0.01).stdout
    assert "no layer runs in the engine, only 'it' (ReLU, a native kernel)\n" in shown
    assert "every layer type is known" in call("stub", net, "-c", doubling).stderr
    call("convert", net, "-c", doubling, "-o", tmp_path / "net.onnx", "--quiet")
    model = anylayer.read(tmp_path / "net.onnx").compile("numpy")
    np.testing.assert_array_equal(next(iter(model(np.load(x)).values())), np.load(x))  # the class is written


def test_the_users_own_kernels_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/anylayer/cldnn_global_custom_kernels"
    path = configuration(folder, "ReLU", name="cldnn_global_custom_kernels.xml")
    net = ir_2018(tmp_path, "ReLU")
    (row,) = json.loads(call("inspect", net, "--json").stdout)["nodes"]
    assert (row["where"], row["origin"]) == ("native", str(path))
    (row,) = json.loads(call("inspect", net, "--json", "--no-user-kernels").stdout)["nodes"]
    assert (row["where"], row["origin"]) == ("engine", "built-in")


def test_a_source_in_another_folder_needs_an_option(tmp_path: Path) -> None:
    kernels = configuration(tmp_path / "a", "It")
    kernels.write_text(kernels.read_text().replace("It.cl", "../b/It.cl"))
    (tmp_path / "b").mkdir()
    (tmp_path / "a/It.cl").rename(tmp_path / "b/It.cl")
    net = ir_2018(tmp_path, "It")
    done = call("inspect", net, "-c", kernels, code=1)
    assert done.stderr.endswith(f"allow its folder: --kernel-folder {tmp_path}/b\n")
    call("inspect", net, "-c", kernels, "--kernel-folder", tmp_path / "b")


def test_a_configuration_given_as_layers_is_refused(tmp_path: Path) -> None:
    net, kernels = ir_2018(tmp_path, "It"), configuration(tmp_path, "It")
    done = call("inspect", net, "-l", kernels, code=1)
    assert done.stderr == f"'{kernels}' is a configuration of OpenCL kernels, which is given as -c {kernels}\n"


@pytest.mark.usefixtures("opencl_device")
def test_an_unknown_device_is_refused(tmp_path: Path) -> None:
    net, kernels = ir_2018(tmp_path, "It"), configuration(tmp_path, "It")
    done = call("verify", net, "-c", kernels, "--device", "no such", "-e", "onnxruntime", code=1)
    assert "--device: there is no OpenCL device 'no such'; devices: " in done.output


def test_layers_lists_the_types_of_a_configuration(tmp_path: Path) -> None:
    define = '<Define name="slope" type="float" param="negative_slope" default="0.0"/>'
    kernels = configuration(tmp_path, "ReLU", defines=define)
    lines = call("layers", kernels).stdout.splitlines()
    assert lines[0] == f"{kernels}: OpenCL kernels"
    assert lines[-1].split() == ["ReLU", "run", "ReLU.cl", "negative_slope=0.0"]
    (found,) = json.loads(call("layers", kernels, "--json").stdout)
    assert found["configuration"] == str(kernels)
    assert found["layers"] == [
        {
            "type": "ReLU",
            "entry": "run",
            "sources": ["ReLU.cl"],
            "defines": [{"name": "slope", "param": "negative_slope", "type": "float", "default": "0.0"}],
        }
    ]


def test_types_of_configurations_and_of_anylayer_are_listed_together(tmp_path: Path) -> None:
    text = call("layers", configuration(tmp_path, "It"), "ReLU").stdout
    assert text.startswith(str(tmp_path))
    assert "negative_slope" in text
