"""Tests of MXNet's functions of elements."""

from __future__ import annotations

from anylayer.layers.mxnet import elementwise

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    *elementwise._FUNCTIONS, "cbrt", "log2", "trunc", "fix", "round", "rint", "logical_not", "smooth_l1", "clip",
    "add_n", "_grad_add", "_scatter_elemwise_div", "_identity_with_attr_like_rhs", "rcbrt", "log10", "arcsinh",
    "arccosh", "arctanh", "degrees", "radians", "_contrib_quadratic", "_contrib_sign_ste", "_contrib_round_ste",
)  # fmt: skip
test_functions_of_two_match_the_recorded_results = as_recorded(
    *(
        name
        for names in map(elementwise._names, elementwise.OF_TWO)
        for name in names.split()[:1]
        if name[1:] not in ("plus", "minus", "mul", "div")
    ),
    *(f"elemwise_{name}" for name in ("add", "sub", "mul", "div")),
    *(f"broadcast_{elementwise._OTHER.get(name, name)}" for name in elementwise.OF_TWO),
    *(f"_{name}_scalar" for name in elementwise.OF_TWO),
    *(f"_r{name}_scalar" for name in elementwise._REVERSED),
)
