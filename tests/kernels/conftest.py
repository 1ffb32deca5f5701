"""Libraries of native layers, built once for the whole run; skipped where there is no C++ compiler."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from anylayer.errors import EngineError, InputError
from anylayer.kernels.compiler import Build, compiler

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent

Built = Callable[..., Path]


def needed_compiler() -> list[str]:
    """Return the C++ compiler; skip the test, with the reason, where there is none."""
    try:
        return compiler()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A function that builds a library of these files and returns its path. The workers of a run share the
    libraries. They are not optimized unless the flags say so, which halves the time to build them."""
    folder = tmp_path_factory.getbasetemp().parent / "anylayer-native"

    def build(name: str, *sources: Path, flags: tuple[str, ...] = ("-O0",)) -> Path:
        # without the sources' paths, which differ in each test
        made = Build((), folder / "x", needed_compiler(), flags=flags)
        headers = sorted((ROOT / "src/anylayer/sdk/include").rglob("*.h*"))
        text = b"".join(file.read_bytes() for file in [*sources, *headers]) + " ".join(made.command()).encode()
        out = folder / hashlib.sha256(text).hexdigest()[:16] / f"lib{name}.so"
        if not out.exists():
            Build(sources, out, made.compiler, flags=flags).run()
        return out

    return build


@pytest.fixture(scope="session")
def examples(built: Built) -> Path:
    """The library of examples/native."""
    folder = ROOT / "examples/native"
    return built(
        "examples", folder / "double.cpp", folder / "interp.cpp", folder / "resize_bilinear.cpp", flags=("-O1",)
    )


@pytest.fixture(scope="session")
def probe(built: Built) -> Path:
    """The library of probe.cpp: small layers, each of which shows one rule."""
    return built("probe", HERE / "probe.cpp")


@pytest.fixture(scope="session")
def opencl_device() -> str:
    """The name of the OpenCL device of the tests; skips the test, with the reason, where there is none."""
    reason = "pyopencl is not installed"
    pytest.importorskip("pyopencl", reason=reason)
    from anylayer.libraries.pyopencl import device

    try:
        return device("").name
    except EngineError as error:
        pytest.skip(str(error))
