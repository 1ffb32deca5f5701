"""Files of layers that tests load."""

from __future__ import annotations

from pathlib import Path

_LAYER = '''"""A layer that needs a module beside it."""

import anylayer
from {module} import {name}


@anylayer.layer("Mine")
class Mine:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        return [inputs[0] {operator} {name}]
'''


def write_layer(folder: Path, module: str, operator: str, value: float) -> Path:
    """Write the layer Mine, and the module beside it that has its constant. Return the layer's file.

    The layer computes `x operator value` for a float32 value.
    """
    name = module.upper().rstrip("S")
    (folder / f"{module}.py").write_text(f"import numpy as np\n\n{name} = np.float32({value})\n")
    path = folder / "layers.py"
    path.write_text(_LAYER.format(module=module, name=name, operator=operator))
    return path
