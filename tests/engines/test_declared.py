"""What an engine may define is declared: a misspelled function is found, not ignored."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import anylayer.engines
from anylayer.engines import Engine, HasDevices, Optional, engines, optional

FOLDER = Path(anylayer.engines.__file__).parent
DECLARED = {name for protocol in (Engine, HasDevices, Optional) for name in vars(protocol) if name[0] != "_"}


@pytest.mark.parametrize("name", engines())
def test_public_functions_of_an_engine_are_declared(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text("utf-8"))
    functions = {s.name for s in tree.body if isinstance(s, ast.FunctionDef) and not s.name.startswith("_")}
    assert "compile" in functions
    assert functions <= DECLARED, "a function that no protocol of anylayer.engines declares"


def test_only_declared_functions_are_asked_for() -> None:
    engine = anylayer.engines.load_engine("onnxruntime")
    assert optional(engine, "counted") is not None and optional(engine, "suits_layer") is None
    with pytest.raises(ValueError, match="no optional function 'suits_layers'"):
        optional(engine, "suits_layers")
