"""The MXNet reader: from a -symbol.json file and a .params file to a Network.

symbol.py  parses the nodes of the symbol, and the values of their attributes
params.py  reads the .params file, a list of arrays with names
build.py   makes the Network of the symbol's nodes and the arrays
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

from anylayer.errors import FileError, need, within
from anylayer.network import Network
from anylayer.readers import Option, options_of
from anylayer.readers._json import read_object
from anylayer.readers._recognize import describe
from anylayer.readers.mxnet.build import build
from anylayer.readers.mxnet.params import read_arrays
from anylayer.readers.mxnet.symbol import parse_symbol, with_outputs

WHAT = "an MXNet network (-symbol.json with .params)"


class MXNetOptions(TypedDict, total=False):
    """The options of anylayer.read for MXNet networks."""

    outputs: Annotated[
        str | Sequence[str] | None,
        Option("The outputs to read in place of those of the symbol, for example without the losses."),
    ]


OPTIONS = options_of(MXNetOptions)
_SYMBOL = "an MXNet network (symbol)"
_PARAMS = "weights of an MXNet network"


def match(path: Path) -> bool:
    """Return whether a file is the symbol of an MXNet network, judged by the beginning of its JSON."""
    return path.is_file() and describe(path) == _SYMBOL


def read(
    model: Path,
    weights: Path | None = None,
    *,
    user_types: frozenset[str] = frozenset(),
    **options: Unpack[MXNetOptions],
) -> Network:
    """Read a network with its weights. Raise FileError or NetworkError, which name the node."""
    names = options.get("outputs")
    with within(str(model)):
        what = describe(model)
        need(what == _SYMBOL, f"this is {what or 'no text'}, expected {_SYMBOL}", FileError)
        symbol = parse_symbol(read_object(model, "the file"))
        if names is not None:
            symbol = with_outputs(symbol, [names] if isinstance(names, str) else names)
    arrays = {}
    if weights is not None:
        with within(str(weights)):
            need(weights.is_file(), "there is no such weights file", FileError)
            what = describe(weights)
            need(what == _PARAMS, f"this is {what or 'no .params file'}, expected {_PARAMS} (.params)", FileError)
            arrays = read_arrays(weights)
    with within(str(model)):
        return build(symbol, arrays, model, "" if weights is None else str(weights), user_types)
