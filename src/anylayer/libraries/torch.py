"""Read the state of a PyTorch module. This is the only file that imports torch and safetensors."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need, some
from anylayer.network import Array

_HEADER = 9
"""Bytes of a safetensors file up to the brace of its header."""


def load_state(path: Path) -> dict[str, Array]:
    """Return the tensors of a module's state by name: a .safetensors file, or what `torch.save` has written of
    `state_dict()`. Floating-point tensors are float32.

    Nothing in the file is executed. Raises FileError for other files, and where torch is not installed.
    """
    with at(str(path)):
        try:
            import torch
        except ImportError:
            raise FileError("to read the state of a module: pip install torch safetensors") from None
        need(path.is_file(), "there is no such file", FileError)
        loaded = _read(torch, path)
        rule = "this is not a state: save module.state_dict(), a mapping of names to tensors"
        need(isinstance(loaded, Mapping), f"{rule}; the file holds a {type(loaded).__name__}", FileError)
        others = [str(name) for name, value in loaded.items() if not isinstance(value, torch.Tensor)]
        need(not others, f"{rule}; not a tensor: {some(others)}", FileError)
        return {str(name): _array(tensor) for name, tensor in loaded.items()}


def _read(torch: Any, path: Path) -> Any:
    with path.open("rb") as file:
        tensors = file.read(_HEADER)[-1:] == b"{"
    try:
        if tensors:
            from safetensors.torch import load_file

            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except ImportError:
        raise FileError("to read safetensors: pip install safetensors") from None
    except pickle.UnpicklingError as error:
        unsafe = "Weights only load failed" in str(error)
        kind = "it holds other Python objects than tensors, which could run code" if unsafe else "it is damaged"
        rule = f"this is not the state of a module: {kind}. Save it with torch.save(module.state_dict(), file)"
        raise FileError(rule) from None
    except Exception as error:  # what torch and safetensors raise for damaged files is not documented
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.200}"
        raise FileError(f"this is not a readable state of a module ({text})") from None


def _array(tensor: Any) -> Array:
    plain = tensor.detach()
    array: Array = (plain.float() if plain.is_floating_point() else plain).contiguous().numpy()
    return np.array(array)
