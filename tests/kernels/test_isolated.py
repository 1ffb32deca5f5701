"""Libraries in a child process: the same results and errors, and a crash is an error of the layer."""

from __future__ import annotations

import gc
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import anylayer
from anylayer.cli import main
from anylayer.errors import FileError, InputError, LayerError
from anylayer.inspect.verify import verify
from anylayer.kernels.isolated import IsolatedLibrary
from tests.kernels.conftest import Built
from tests.kernels.test_contract import X, net_of, out
from tests.kernels.test_selection import WANT, First
from tests.threads import in_threads

CRASHES = """
#include <anylayer/layer.hpp>
#include <csignal>
#include <cstdlib>
#include <unistd.h>
struct Crashes : anylayer::Layer {
  std::string in, how;
  explicit Crashes(const anylayer::LayerParams& p) : Layer(p) {
    in = p.get<std::string>("in");
    how = p.get<std::string>("how");
    fail("create");
  }
  void fail(const char* where) const {
    if (in != where) return;
    std::string bytes;
    if (how.rfind("write ", 0) == 0)
      for (std::size_t i = 6; i < how.size(); i += 2) bytes += char(std::stoi(how.substr(i, 2), nullptr, 16));
    for (int fd = 3; fd < 64 && !bytes.empty(); ++fd)
      if (::write(fd, bytes.data(), bytes.size()) < 0) continue;
    if (!bytes.empty()) return;
    if (how == "exit") std::_Exit(3);
    std::puts("a line of the library");
    std::fflush(stdout);
    std::raise(how == "abort" ? SIGABRT : SIGSEGV);
  }
  void forward(anylayer::InputArrays x, anylayer::OutputArrays y, anylayer::OutputArrays) override {
    fail("forward");
    std::memcpy(y[0].data, x[0].data, y[0].total() * y[0].elemSize());
  }
};
ANYLAYER_REGISTER_LAYER(Crashes, Crashes)
"""


@pytest.fixture(scope="module")
def crashes(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose layer crashes where its parameters say."""
    source = tmp_path_factory.mktemp("crashes") / "crashes.cpp"
    source.write_text(CRASHES)
    return built("crashes", source)


def isolated(net: anylayer.Net, library: Path, *layers: object) -> anylayer.Net:
    """Return the network of the same file with the library isolated."""
    return anylayer.read(net.network.source, layers=[library, *layers], isolate=True)


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_an_isolated_library_computes_the_same(tmp_path: Path, probe: Path, engine: str) -> None:
    net = isolated(net_of(tmp_path, "First", "", probe), probe)
    np.testing.assert_array_equal(out(net, engine=engine), WANT)
    if engine == "numpy":
        return
    assert "float32, NCHW, isolated; no NumPy class" in net.inspect().nodes[1].reason
    buffer = np.zeros_like(X)
    assert net.compile(engine)(X, out={"outy0": buffer})["outy0"] is buffer
    np.testing.assert_array_equal(buffer, WANT)
    assert all(c.ok for c in verify(isolated(net, probe, ("First", First)), {"data": X}))


def test_errors_of_an_isolated_library_are_the_same(tmp_path: Path, probe: Path) -> None:
    for where in ("create", "forward"):
        net = isolated(net_of(tmp_path, "Throws", f'throws_param {{ in: "{where}" }}', probe), probe)
        with pytest.raises(
            LayerError, match=r"throws.prototxt:3: layer 'it' \(Throws\): libprobe.so: it is broken$"
        ):
            out(net)
    path = tmp_path / "x.so"
    path.write_bytes(probe.read_bytes()[:5000])
    with pytest.raises(FileError, match=f"{path}: is cut off"):
        isolated(net, path)
    with pytest.raises(InputError, match="has no layer type 'Firts'; did you mean 'First'"):
        anylayer.read(net.network.source, layers=[f"Firts={probe}"], isolate=True)


@pytest.mark.one_per("where")
@pytest.mark.parametrize(
    ("where", "how", "text"),
    [
        ("forward", "segv", "its process crashed with SIGSEGV in forward"),
        ("forward", "abort", "its process crashed with SIGABRT in forward"),
        ("create", "segv", "its process crashed with SIGSEGV while a layer was prepared"),
        ("forward", "exit", "its process ended with status 3 in forward"),
    ],
)
def test_a_crash_is_an_error_of_the_layer(
    tmp_path: Path, crashes: Path, where: str, how: str, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }\n'
        f'layer {{ name: "it" type: "Crashes" bottom: "data" top: "out" p {{ in: "{where}" how: "{how}" }} }}\n'
    )
    net = anylayer.read(path, layers=[crashes], isolate=True)
    for _ in range(2):  # the second time, the process has gone already
        with pytest.raises(LayerError, match=rf"n.prototxt:2: layer 'it' \(Crashes\): libcrashes.so: {text}$"):
            net.compile("onnxruntime")(np.ones((1, 3), np.float32))
    assert "a line of the library" not in capfd.readouterr().out


def stated(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("where", "written"),
    [
        ("create", pickle.dumps((True, []))),
        ("forward", b"\xff" * 8),
        ("forward", stated(b"[" * 5000)),
        ("create", stated(b"\xff")),
        ("forward", stated(b'{"result": [["float32", [1, 4]]]}')),
        ("create", stated(b'{"result": [[["float32", [1, -3]]], [], "", []]}')),
        ("create", stated(b'{"result": [[["object", [1, 3]]], [], "", []]}')),
        ("forward", stated(b'{"error": ["Path", "x"]}')),
    ],
    ids=["pickle", "length", "deep", "utf8", "shape", "negative", "dtype", "class"],
)
def test_malformed_answer_is_an_error_of_the_layer(
    tmp_path: Path, crashes: Path, where: str, written: bytes
) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "it" type: "Crashes" bottom: "data" top: "out" '
        f'p {{ in: "{where}" how: "write {written.hex()}" }} }}\n'
    )
    net = anylayer.read(path, layers=[crashes], isolate=True)
    doing = {"create": "while a layer was prepared", "forward": "in forward"}[where]
    text = (
        rf"layer 'it' \(Crashes\): libcrashes.so: its process was stopped, because its answer {doing} is malformed"
    )
    for _ in range(2):
        with pytest.raises(LayerError, match=text):
            net.compile("numpy")(np.ones((1, 3), np.float32))


def test_reading_an_answer_executes_nothing(
    tmp_path: Path, crashes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither modules in the current folder nor a pickle that the library writes are executed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "", prepend=os.pathsep)
    for module in ("pickle", "numpy", "hashlib"):
        (tmp_path / f"{module}.py").write_text(f"open('{module}-was-executed', 'w')")
    written = b"cposix\nsystem\n(S'touch pickle-was-executed'\ntR."
    (tmp_path / "n.prototxt").write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "it" type: "Crashes" bottom: "data" top: "out" '
        f'p {{ in: "forward" how: "write {written.hex()}" }} }}\n'
    )
    with pytest.raises(LayerError, match="is malformed"):
        anylayer.read("n.prototxt", layers=[crashes], isolate=True).compile("numpy")(np.ones((1, 3), np.float32))
    assert not [*tmp_path.glob("*was-executed")]


def test_the_command_line_isolates(tmp_path: Path, crashes: Path) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "it" type: "Crashes" bottom: "data" top: "out" p { in: "forward" how: "segv" } }\n'
    )
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    words = ["run", path, "-l", crashes, "--isolate", "-i", tmp_path / "x.npy", "-e", "onnxruntime"]
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 1
    assert "libcrashes.so: its process crashed with SIGSEGV in forward" in result.stderr


def test_a_crash_while_loading_names_the_file(tmp_path: Path, built: Built) -> None:
    source = tmp_path / "early.cpp"
    source.write_text("#include <csignal>\nstatic const int x = raise(SIGSEGV);\n")
    library = built("early", source)
    path = tmp_path / "n.prototxt"
    path.write_text('layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }\n')
    with pytest.raises(FileError, match=r"libearly.so: its process crashed with SIGSEGV while it was loaded"):
        anylayer.read(path, layers=[library], isolate=True)


def test_threads_share_the_child_process(tmp_path: Path, probe: Path) -> None:
    model = isolated(net_of(tmp_path, "First", "", probe), probe).compile("onnxruntime")
    fine: list[bool] = []
    in_threads(lambda _: fine.extend(np.array_equal(model(X)["outy0"], WANT) for _ in range(20)), range(4))
    assert fine == [True] * 80


def test_the_child_process_ends_with_the_network(tmp_path: Path, probe: Path) -> None:
    net = isolated(net_of(tmp_path, "First", "", probe), probe)
    process = next(iter(net.kernels.values())).library._process
    out(net)
    assert process.poll() is None
    del net
    gc.collect()
    assert process.poll() == 0


ENDLESS = """
#include <anylayer/layer.hpp>
#include <chrono>
struct Endless : anylayer::Layer {
  explicit Endless(const anylayer::LayerParams& p) : Layer(p) {
    if (p.get<std::string>("in") == "create") wait();
  }
  static void wait() { std::this_thread::sleep_for(std::chrono::hours(1)); }
  void forward(anylayer::InputArrays, anylayer::OutputArrays, anylayer::OutputArrays) override { wait(); }
};
ANYLAYER_REGISTER_LAYER(Endless, Endless)
"""


@pytest.mark.one_per()
@pytest.mark.parametrize(("where", "doing"), [("forward", "in forward"), ("create", "while a layer was prepared")])
def test_a_call_that_does_not_end_is_an_error_of_the_layer(
    tmp_path: Path, built: Built, where: str, doing: str
) -> None:
    source = tmp_path / "endless.cpp"
    source.write_text(ENDLESS)
    library = built("endless", source)
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }\n'
        f'layer {{ name: "it" type: "Endless" bottom: "data" top: "out" p {{ in: "{where}" }} }}\n'
    )
    text = (
        r"n.prototxt:2: layer 'it' \(Endless\): libendless.so: its process was stopped, because it took "
        rf"more than 2 s {doing}. If it needs more time, give isolate=SECONDS"
    )
    net = anylayer.read(path, layers=[library], isolate=2)
    for _ in range(2):
        with pytest.raises(LayerError, match=text):
            net.compile("onnxruntime")(np.ones((1, 3), np.float32))
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    words = ["run", path, "-l", library, "--isolate-limit", "2", "-i", tmp_path / "x.npy", "-e", "onnxruntime"]
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 1
    assert f"more than 2 s {doing}. If it needs more time, give --isolate-limit SECONDS" in result.stderr


def test_start_of_the_process_has_no_time_limit(probe: Path) -> None:
    assert IsolatedLibrary(str(probe), limit=0.01).types


def test_a_time_limit_is_positive(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "First", "", probe)
    with pytest.raises(InputError, match="isolate=-1: the time limit must be positive"):
        anylayer.read(net.network.source, layers=[probe], isolate=-1)
