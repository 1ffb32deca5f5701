"""Record what real Keras' models in memory have as public attributes: NAME.keras to NAME.live.npz.

Run with a Python that has keras and one of its backends: python make_live.py. The entry `json` is what to_json()
returns. The entry `tree` is JSON with the name, layers and wrapped layer of each object, and the keys of weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

HERE = Path(__file__).parent


def tree_of(thing: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Return an object's attributes. Its weights are added to `stored`."""
    keys = [f"w{len(stored) + i}" for i in range(len(thing.get_weights()))]
    stored.update(zip(keys, thing.get_weights()))
    found: dict[str, Any] = {"name": thing.name, "weights": keys}
    if hasattr(thing, "layers"):
        found["layers"] = [tree_of(layer, stored) for layer in thing.layers]
    if hasattr(thing, "layer"):
        found["layer"] = tree_of(thing.layer, stored)
    return found


if __name__ == "__main__":
    for name in ("nested", "text", "steps"):
        model = keras.saving.load_model(HERE / f"{name}.keras", compile=False)
        arrays: dict[str, Any] = {"json": np.array(model.to_json())}
        tree = tree_of(model, arrays)
        np.savez_compressed(HERE / f"{name}.live.npz", tree=np.array(json.dumps(tree)), **arrays)
