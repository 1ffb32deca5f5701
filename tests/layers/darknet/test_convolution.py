"""Tests of Darknet's sections with weights."""

from __future__ import annotations

from .recorded import as_recorded, refuses

test_sections_match_the_recorded_results = as_recorded("convolutional", "connected", "local", "batchnorm")
CONV = "[convolutional]\nfilters=4\nsize=3\nactivation=linear\n"

test_convolution_needs_an_activation = refuses(
    "[convolutional]\nfilters=4\nsize=3\n", "parameter 'activation' is missing"
)
test_activation_is_known = refuses(CONV.replace("linear", "leeky"), "must be one of linear, logistic,")
test_filters_are_positive = refuses(CONV.replace("filters=4", "filters=0"), "filters must be at least 1, got 0")
test_groups_divide_channels = refuses(CONV + "groups=3\n", "groups=3 does not divide 8 channels")
test_groups_divide_filters = refuses(CONV + "groups=8\n", "groups=8 does not divide filters=4")
test_dilation_keeps_the_size = refuses(CONV + "dilation=2\n", "dilation=2 needs a padding of half the kernel")
test_binary_weights_are_refused = refuses(CONV + "xnor=1\n", "xnor=1 is not supported, only xnor=0")
test_words_are_no_switches = refuses(CONV + "batch_normalize=true\n", "must be a number, got true, which")
test_part_of_the_weights_is_refused = refuses(CONV + "numload=2\n", "numload=2 is not supported")
test_padding_of_local_weights = refuses(
    "[local]\nfilters=1\nsize=5\npad=1\nactivation=linear\n", "pad=1 with size=5 is not supported"
)
test_local_weights_fit_the_map = refuses(
    "[local]\nfilters=1\nsize=7\nactivation=linear\n", "size=7 does not fit a map of 6 x 8"
)
test_unknown_option_is_refused = refuses(CONV + "strides=2\n", "did you mean 'stride'?")
test_claimed_weights_are_limited = refuses(CONV.replace("filters=4", "filters=2000000000"), "the limit is")
