"""Names that are unique within a network, and the places of layers in error messages."""

from __future__ import annotations


def unique(name: str, counts: dict[str, int]) -> str:
    """Return `name`, or the first of name_1, name_2, ... that is not taken, and add it to `counts`.

    `counts` maps each name to the last number that was appended to it, so that many equal names take linear time.
    """
    candidate, i = name, counts.get(name, 0)
    while candidate in counts:
        i += 1
        candidate = f"{name}_{i}"
    counts[name] = i
    counts[candidate] = counts.get(candidate, 0)
    return candidate


def layer_place(name: str, type_: str, file: str = "", line: int = 0) -> str:
    """Return the place of a layer for an error message: "deploy.prototxt:41: layer 'conv1' (Convolution)".

    The file and the line are left out if they are not given.
    """
    layer = f"layer '{name}' ({type_})"
    if not file:
        return layer
    return f"{file}:{line}: {layer}" if line else f"{file}: {layer}"
