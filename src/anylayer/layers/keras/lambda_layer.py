"""Lambda layers, which are refused, since they are Python code."""

from __future__ import annotations

from anylayer.errors import LayerError, wording
from anylayer.layer import layer
from anylayer.layers.keras._base import KerasLayer


@layer("Lambda")
class Lambda(KerasLayer):
    """Refuse Python code that is stored in the file, since it is not run.

    Source: keras/src/layers/core/lambda_layer.py.
    """

    role = "code"

    def _harmless(self, name: str) -> bool:
        return True

    def setup(self) -> None:
        raise LayerError(
            "is Python code stored in the file, which is not run. Write it as a class registered "
            f"under the layer's own name, @anylayer.layer({self.name!r}), and give the file: "
            + wording("layers=['layers.py']", "-l layers.py")
            + ". To begin one: anylayer stub MODEL -o layers.py"
        )
