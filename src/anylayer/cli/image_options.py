"""The options that say how images become inputs."""

from __future__ import annotations

from typing import Any

import click

from anylayer.cli.command import F, apply, to_numbers, to_size
from anylayer.cli.inputs import ImageOptions

CONVENTIONS: dict[str, dict[str, Any]] = {
    "tf": {"mean": "127.5", "scale": 1 / 127.5, "swap": True},
    "torch": {"mean": "123.675,116.28,103.53", "scale": (1 / 58.395, 1 / 57.12, 1 / 57.375), "swap": True},
    "caffe": {"mean": "103.939,116.779,123.68", "scale": 1.0, "swap": False},
}
"""The modes of preprocess_input in keras.applications (imagenet_utils.py): mean, scale, and whether it is RGB."""


def image_options(function: F) -> F:
    """Add the options that say how images become inputs."""
    return apply(
        function,
        [
            click.option(
                "--size",
                callback=to_size,
                metavar="WxH",
                help="Resize images to this size; 'keep' does not resize [the input's size].",
            ),
            click.option(
                "--mean", metavar="B,G,R|FILE", help="Subtract this, in the order of the input's channels."
            ),
            click.option(
                "--scale",
                callback=to_numbers,
                metavar="NUMBER",
                help="Multiply by this, for example 1/255; or one factor per channel.",
            ),
            click.option("--swap-rb", "swap", is_flag=True, help="Use RGB order instead of BGR."),
            click.option(
                "--crop", "cover", is_flag=True, help="Keep the aspect ratio: cover the size and crop the center."
            ),
            click.option("--gray", is_flag=True, help="Convert to one channel."),
            click.option(
                "--pixels",
                type=click.Choice(list(CONVENTIONS)),
                help="Preprocess like keras.applications: tf (RGB in -1..1), torch (RGB, ImageNet's mean and "
                "standard deviation), caffe (BGR minus a mean).",
            ),
        ],
    )


def preprocessing_of(options: dict[str, Any]) -> ImageOptions:
    """Return the preprocessing that the options for images state."""
    return ImageOptions(options["size"], **_pixels(options), cover=options["cover"], gray=options["gray"])


def _pixels(options: dict[str, Any]) -> dict[str, Any]:
    """Return mean, scale and order of channels, from --pixels or from the single options."""
    given_pixels = {name: options[name] for name in ("mean", "scale", "swap")}
    if options["pixels"] is None:
        return given_pixels
    if any(given_pixels.values()):
        raise click.UsageError("--pixels replaces --mean, --scale and --swap-rb; give either it or them")
    return CONVENTIONS[options["pixels"]]
