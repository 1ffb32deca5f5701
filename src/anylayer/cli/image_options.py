"""The options that say how images become inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from anylayer.cli.command import F, ImageOption, apply, to_numbers, to_size
from anylayer.cli.inputs import ImageOptions

CONVENTIONS: dict[str, dict[str, Any]] = {
    "tf": {"mean": "127.5", "scale": 1 / 127.5, "swap": True},
    "torch": {"mean": "123.675,116.28,103.53", "scale": (1 / 58.395, 1 / 57.12, 1 / 57.375), "swap": True},
    "caffe": {"mean": "103.939,116.779,123.68", "scale": 1.0, "swap": False},
}
"""The modes of preprocess_input in keras.applications (imagenet_utils.py): mean, scale, and whether it is RGB."""


def image_options(function: F) -> F:
    """Add the options that say how images become inputs."""
    image = partial(click.option, cls=ImageOption)
    return apply(
        function,
        [
            image(
                "--size", callback=to_size, metavar="WxH", help="Resize to this, or keep the size [the input's]."
            ),
            image("--mean", metavar="B,G,R|FILE", help="Subtract this, in the order of the channels."),
            image(
                "--scale",
                callback=to_numbers,
                metavar="NUMBER",
                help="Multiply by a number (1/255), or one per channel.",
            ),
            image("--swap-rb", "swap", is_flag=True, help="Use RGB order instead of BGR."),
            image("--crop", "cover", is_flag=True, help="Keep the aspect ratio, and crop the center."),
            image("--gray", is_flag=True, help="Convert to one channel."),
            image(
                "--pixels",
                type=click.Choice(list(CONVENTIONS)),
                help="As keras.applications: tf, torch RGB; caffe BGR.",
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
