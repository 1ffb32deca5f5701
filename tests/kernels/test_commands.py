"""The commands for native layers: build, sdk, layers, and -l of the others; CMake's find_package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import anylayer
from anylayer.cli import main
from anylayer.kernels.compiler import sdk
from tests.kernels.conftest import ROOT, needed_compiler
from tests.kernels.test_contract import X, net_of, out


def command(*words: object, status: int = 0) -> Result:
    """Run `anylayer` with these words; the status must be `status`."""
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == status, result.output
    return result


def test_build_prints_its_command_and_writes_a_library(tmp_path: Path) -> None:
    needed_compiler()
    source = tmp_path / "one.cpp"
    source.write_text(
        "#include <anylayer/layer.hpp>\nstruct One : anylayer::Layer { using Layer::Layer; };\n"
        "ANYLAYER_REGISTER_LAYER(One, One);\n"
    )
    library = tmp_path / "made" / "libone.so"
    result = command("build", source, "-o", library, "--flag", "-Wall", "--flag=-Werror")
    assert f"-I{sdk() / 'include'} {source} -o {library} -Wall -Werror" in result.stderr
    assert f"wrote {library}" in result.stderr
    shown = command("layers", library).stdout
    assert shown.startswith(f"{library}: no version is stated (interface 1)")
    assert "One" in shown
    assert [p.name for p in library.parent.iterdir()] == ["libone.so"]


def test_build_shows_the_first_errors_and_names_a_file_with_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed_compiler()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = tmp_path / "bad.cpp"
    source.write_text('#warning "first"\n' + "".join(f"int x{i} = y{i};\n" for i in range(30)))
    shown = command("build", source, "-o", tmp_path / "libbad.so", status=1).stderr.splitlines()
    start = shown.index(f"{source}: does not compile:")
    assert "bad.cpp:2:10: error:" in shown[start + 1] and len(shown) - start < 20
    (log,) = tmp_path.glob("*.log")
    assert shown[-1].endswith(f"lines) is in {log}") and "y29" in log.read_text()


def test_build_shows_what_the_compiler_says(tmp_path: Path) -> None:
    needed_compiler()
    source = tmp_path / "bad.cpp"
    source.write_text("int x = y;\n")
    result = command("build", source, "-o", tmp_path / "libbad.so", status=1)
    assert f"{source}: does not compile:" in result.stderr
    assert "bad.cpp:1:9: error:" in result.stderr
    assert not (tmp_path / "libbad.so").exists()
    assert (
        f"{tmp_path}/gone.cpp: there is no such file"
        in command("build", tmp_path / "gone.cpp", "-o", tmp_path / "libbad.so", status=1).stderr
    )
    assert (
        "the name of a library ends in .so, .dylib or .dll"
        in command("build", source, "-o", tmp_path / "bad.txt", status=1).stderr
    )


def test_build_says_that_there_is_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "x.cpp"
    source.write_text("")
    words = ("build", source, "-o", tmp_path / "libx.so")
    assert (
        "there is no C++ compiler 'gcc-of-1999'" in command(*words, "--compiler", "gcc-of-1999", status=1).stderr
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    text = command(*words, status=1).stderr
    assert "there is no C++ compiler (c++, g++, clang++). On Debian: apt-get install g++" in text
    monkeypatch.setenv("CXX", "mycc -m64")
    assert "there is no C++ compiler 'mycc'" in command(*words, status=1).stderr


def test_layers_shows_what_a_library_holds(examples: Path) -> None:
    shown = command("layers", examples).stdout
    assert f"{examples}: version 1.0, the layers of two documents on custom layers (interface 1)" in shown
    assert "Double" in shown and "Multiply the input by two." in shown
    (found,) = json.loads(command("layers", examples, "--json").stdout)
    assert (found["library"], found["interface"], found["version"]) == (str(examples), 1, "1.0")
    assert [layer["type"] for layer in found["layers"]] == ["Double", "Interp", "ResizeBilinear"]
    assert "there is no such library" in command("layers", "libgone.so", status=1).stderr


def test_every_command_takes_a_library(tmp_path: Path, probe: Path) -> None:
    source = net_of(tmp_path, "First", "", probe).network.source
    np.save(tmp_path / "x.npy", X)
    layers = ("-l", probe)
    command("run", source, *layers, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npy", "-e", "onnxruntime")
    np.testing.assert_array_equal(
        np.load(tmp_path / "y.npy"), X + np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    )
    shown = command("inspect", source, *layers).stdout
    assert "native, libprobe.so: float32, NCHW; no NumPy class" in shown
    shown = command("verify", source, *layers, "-e", "onnxruntime").stdout
    assert "it: a native kernel without a NumPy class" in shown
    assert command("bench", source, *layers, "-e", "onnxruntime", "-n", 2).exit_code == 0
    shown = command("profile", source, *layers, "-e", "onnxruntime", "--seconds", 0.01).stdout
    assert "around 'it' (First, a native kernel)" in shown
    assert "every layer type is known" in command("stub", source, *layers).stderr
    text = command("convert", source, "-o", tmp_path / "n.onnx", *layers, status=1).stderr
    assert "a native kernel computes it" in text and "--keep First" in text


def test_sdk_prints_the_folder_of_the_headers() -> None:
    assert command("sdk").stdout == f"{sdk()}\n"
    include = Path(command("sdk", "--include").stdout.strip())
    assert (include / "anylayer" / "layer.hpp").is_file()


@pytest.mark.breadth
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_finds_the_package(tmp_path: Path, probe: Path) -> None:
    folder = tmp_path / "build"
    environment = {**os.environ, "CXX": needed_compiler()[0]}
    options = [f"-DCMAKE_PREFIX_PATH={sdk()}", "-DCMAKE_BUILD_TYPE=Debug"]
    configure = ["cmake", "-S", ROOT / "examples/native", "-B", folder, *options]
    for words in (configure, ["cmake", "--build", folder]):
        done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Double" in command("layers", folder / "liblayers.so").stdout
    net = net_of(tmp_path, "Double", "", folder / "liblayers.so")
    np.testing.assert_array_equal(out(net), 2 * X)


def test_importing_anylayer_loads_no_kernels() -> None:
    import sys

    code = "import sys, anylayer; print([m for m in sys.modules if m in ('ctypes', 'anylayer.kernels.library')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "anylayer.kernels.library" not in done.stdout
    assert anylayer.__version__
