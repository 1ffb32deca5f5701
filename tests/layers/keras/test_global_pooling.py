"""Global pools."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("global_pooling"))
