"""Layers that join their inputs."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("merging"))
