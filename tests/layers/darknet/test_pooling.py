"""Tests of Darknet's sections that reduce windows or change the size of a map."""

from __future__ import annotations

from .recorded import as_recorded, refuses

test_sections_match_the_recorded_results = as_recorded(
    "maxpool", "local_avgpool", "avgpool", "crop", "upsample", "reorg", "reorg3d"
)

test_size_and_stride_are_given = refuses("[maxpool]\nsize=2\n", "parameter 'stride' is missing")
test_depth_is_refused = refuses("[maxpool]\nsize=2\nstride=2\nmaxpool_depth=1\n", "maxpool_depth=1 is not")
test_padding_is_not_negative = refuses("[maxpool]\nsize=2\nstride=2\npadding=-1\n", "padding must be at least 0")
test_downsampling_is_refused = refuses("[upsample]\nstride=-2\n", "stride must be at least 1, got -2")
test_reverse_reorg_is_refused = refuses("[reorg]\nstride=2\nreverse=1\n", "reverse=1 is not supported")
test_reorg_divides_the_map = refuses("[reorg]\nstride=3\n", "stride=3 does not divide 6 x 8 pixels")
test_crop_fits = refuses("[crop]\ncrop_height=7\ncrop_width=2\n", "crops 7 x 2 of a map of 6 x 8")
test_output_is_limited = refuses("[upsample]\nstride=2000000000\n", "rows and columns")
