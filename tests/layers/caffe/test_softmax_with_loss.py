"""SoftmaxWithLoss."""

import numpy as np

from tests.layers.harness import Case, case, noise, ramp, rejects

X = noise(2, 3, 4)
LABELS = np.float32([[0, 1, 2, 0], [2, 2, 1, 0]])
LOGS = X.astype(float) - np.log(np.exp(X.astype(float)).sum(1, keepdims=True))
PICKED = np.take_along_axis(LOGS, LABELS[:, None].astype(int), 1)[:, 0]


def _loss(value: float, **loss_param: object):
    return case("SoftmaxWithLoss", {"loss_param": loss_param}, inputs=[X, LABELS], outputs=[np.float32(value)])


test_mean = _loss(-PICKED.mean())
test_sum = _loss(-PICKED.sum(), normalization="NONE")
test_by_batch = _loss(-PICKED.sum() / 2, normalization="BATCH_SIZE")
test_by_all = _loss(-PICKED[LABELS != 0].sum() / 8, normalization="FULL", ignore_label=0)
test_ignored = _loss(-PICKED[LABELS != 0].mean(), ignore_label=0)
test_older_spelling = _loss(-PICKED.sum() / 2, normalize=False)
test_axis = case(
    "SoftmaxWithLoss",
    {"softmax_param": {"axis": -1}},
    inputs=[[[0, 0]], [1]],
    outputs=[np.float32(np.log(2))],
)
test_rejects_fewer_labels_than_scores = rejects(
    "SoftmaxWithLoss", {"loss_param": {}}, inputs=[X, ramp(2)], text="scores (2, 3, 4) need 8 labels, got 2"
)
test_rejects_second_output_without_loss_weights = rejects(
    "SoftmaxWithLoss",
    {"loss_param": {}},
    inputs=[X, LABELS],
    tops=2,
    text="loss_weight must be given once for each of the 2 outputs, got 0",
)


def test_second_output_is_the_softmax() -> None:
    bound = Case("SoftmaxWithLoss", {"loss_param": {}}, [X, LABELS], tops=2).bind()
    bound.instance.settings = {"loss_weight": [1.0, 0.0]}
    _, softmax = bound([X, LABELS])
    np.testing.assert_allclose(softmax, np.exp(LOGS), rtol=1e-5)
