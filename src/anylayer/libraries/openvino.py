"""OpenVINO, with its telemetry switched off. This is the only file that imports it.

Importing this file raises ImportError where OpenVINO is not installed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

_TELEMETRY = "openvino_telemetry"


def _user_consents() -> bool:
    """Return whether the user has agreed to OpenVINO's telemetry (`opt_in_out --opt_in` writes 1 to a file)."""
    try:
        return (Path.home() / "intel" / _TELEMETRY).read_text().strip() == "1"
    except (OSError, RuntimeError, ValueError):
        return False


def _without_telemetry() -> contextlib.AbstractContextManager[None]:
    """Return a context in which importing OpenVINO does not load its telemetry package.

    That package sends an event for each import. OpenVINO uses a stand-in where the package cannot be imported.
    Nothing is changed where the user has agreed to telemetry or has loaded either package already.
    """
    if "openvino" in sys.modules or _TELEMETRY in sys.modules or _user_consents():
        return contextlib.nullcontext()
    return _hidden(_TELEMETRY)


@contextlib.contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Make every import of a module raise ImportError until the context ends."""
    sys.modules[module] = None  # type: ignore[assignment]  # None makes imports fail
    try:
        yield
    finally:
        del sys.modules[module]


with _without_telemetry():
    import openvino

ov: Any = openvino
_core: Any = None
_lock = threading.Lock()


def shared_core() -> Any:
    """Return the openvino.Core of this process."""
    global _core
    with _lock:
        if _core is None:
            _core = ov.Core()
        return _core


@cache
def saturates() -> bool:
    """Return whether OpenVINO saturates sums of products of bytes here: see libraries.onnx.byte_product."""
    from anylayer.libraries.onnx import byte_product

    model, x, want = byte_product()
    program = shared_core().compile_model(shared_core().read_model(model.SerializeToString()), "CPU")
    return float(program(x)[0].item()) != want


def add_onnx_operator(name: str, domain: str, convert: Callable[[Any], list[Any]]) -> None:
    """Have the shared core convert an operator of ONNX models with `convert`, which takes the frontend's node and
    returns the outputs."""
    from openvino.frontend.onnx import ConversionExtension

    shared_core().add_extension(ConversionExtension(name, domain, convert))


def extension_flags() -> list[str] | None:
    """Return the arguments for a compiler that builds an extension of this OpenVINO, None if it has no headers."""
    folder = Path(ov.__file__).parent
    libraries = [
        file for name in ("openvino", "tbb") for file in sorted((folder / "libs").glob(f"lib{name}.so.*"))
    ]
    if not libraries or not (folder / "include" / "openvino").is_dir():
        return None
    return ["-isystem", str(folder / "include"), *map(str, libraries)]


def read_onnx(data: bytes) -> Any:
    """Return OpenVINO's model of an ONNX file. TopK orders equal values by index, as in ONNX, which is slower."""
    model = shared_core().read_model(data)
    for node in model.get_ops():
        if node.get_type_name() == "TopK" and node.output(1).get_target_inputs():
            node.set_attribute("stable", True)
    return model


def fold_constants(model: Any) -> None:
    """Fold the constants of a model, in place."""
    from openvino import passes

    manager = passes.Manager()
    manager.register_pass(passes.ConstantFolding())
    manager.run_passes(model)
