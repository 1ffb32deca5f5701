"""Tests of Darknet's sections that combine earlier sections."""

from __future__ import annotations

from .recorded import as_recorded, refuses

test_sections_match_the_recorded_results = as_recorded("route", "shortcut", "scale_channels", "sam")
POOL = "[maxpool]\nsize=2\nstride=2\n"
SAME = "[dropout]\n"

test_groups_divide_channels = refuses(
    SAME + "[route]\nlayers=0\ngroups=3\n", "groups=3 does not divide 8 channels"
)
test_group_exists = refuses(SAME + "[route]\nlayers=0\ngroups=2\ngroup_id=2\n", "must be less than groups=2")
test_routes_of_other_sizes_are_refused = refuses(
    SAME + POOL + "[route]\nlayers=0,1\n", "maps of 6x8 and 3x4 cannot be concatenated"
)
test_shortcut_of_another_size_is_refused = refuses(
    SAME + POOL + "[shortcut]\nfrom=0\nactivation=linear\n", "maps of different sizes are not supported"
)
test_factors_of_a_shortcut_are_refused = refuses(
    2 * SAME + "[shortcut]\nfrom=0\nalpha=2\nactivation=linear\n", "options has no field 'alpha'"
)
test_weights_need_a_normalization = refuses(
    2 * SAME + "[shortcut]\nfrom=0\nweights_type=per_feature\n", "needs weights_normalization, relu or softmax"
)
test_scale_is_one_number_per_channel = refuses(
    2 * SAME + "[scale_channels]\nfrom=0\n", "input 0 must be of shape (1, 8, 1, 1), got (1, 8, 6, 8)"
)
test_sam_needs_equal_shapes = refuses(
    SAME + POOL + "[sam]\nfrom=0\n", "input 1 must be of shape (1, 8, 3, 4), as in"
)
