"""CTCGreedyDecoder."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer.layer import Array, Layer, field, layer, need, samples
from anylayer.layers._arrays import decoded_labels


@layer("CTCGreedyDecoder")
class CTCGreedyDecoder(Layer):
    """Return the most likely label of each step, with repeats merged and blanks removed, padded with -1.

    Probabilities (T, N, C) and indicators (T, N) to labels (N, T, 1, 1) and optionally scores (N, 1, 1, 1). A
    sequence ends before the first step t >= 1 whose indicator is 0; the indicator of step 0 is not read. The
    labels of ChWick/caffe, from which the source was made, are (T, N).
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/ctc_decoder_layer.cpp.
    """

    message = "ctc_decoder_param"
    samples: ClassVar = {0: samples.scores, 1: samples.indicators}
    blank_index: int = field(1, "int32", -1, doc="index of the blank; negative: the last label")
    ctc_merge_repeated: bool = field(
        2, "bool", True, doc="whether repeats of a label in consecutive steps are merged"
    )
    numbers: ClassVar = {"model-optimizer": 149}

    def setup(self) -> None:
        need(self.outputs <= 2, f"has at most 2 outputs (sequences, scores), got {self.outputs}")

    def forward(self, *inputs: Array) -> list[Array]:
        need(
            len(inputs) == 2,
            f"takes 2 inputs (probabilities, indicators), got {len(inputs)}; accuracy is not computed",
        )
        x, going = inputs
        need(len(x.shape) == 3, f"probabilities must be of shape (T, N, C), got {tuple(x.shape)}")
        t, n, c = x.shape
        need(
            tuple(going.shape[:2]) == (t, n) and int(np.prod(going.shape)) == t * n,
            f"indicators must be of shape ({t}, {n}), got {tuple(going.shape)}",
        )
        need(self.blank_index < c, f"blank_index={self.blank_index} must be less than the {c} labels")
        blank = c - 1 if self.blank_index < 0 else self.blank_index
        label = x.argmax(axis=2).T  # (N, T)
        ended = (going.reshape(t, n).T == 0) & (np.arange(t) > 0)
        within = ended.astype(np.int64).cumsum(axis=1) == 0
        labels, _ = decoded_labels(label, within & (label != blank), self.ctc_merge_repeated)
        sequences = labels.astype(np.float32).reshape(n, t, 1, 1)
        scores = -np.where(within, x.max(axis=2).T, np.float32(0)).sum(axis=1)
        return [sequences, scores.reshape(n, 1, 1, 1)][: self.outputs]
