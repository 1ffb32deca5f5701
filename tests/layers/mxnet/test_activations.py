"""Tests of MXNet's activations, softmax and losses."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "Activation", "hard_sigmoid", "LeakyReLU", "softmax", "softmin", "log_softmax", "SoftmaxActivation",
    "SoftmaxOutput", "LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput", "SVMOutput",
    "BlockGrad", "_copy", "_contrib_gradientmultiplier", "IdentityAttachKLSparseReg",
    "make_loss", "MakeLoss", "Dropout", "Cast", "amp_cast",
)  # fmt: skip
