"""Tests of Darknet's sections that combine earlier sections."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import anylayer

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
test_shortcut_of_a_smaller_map_is_refused = refuses(
    SAME + POOL + "[upsample]\nstride=2\n[shortcut]\nfrom=1\nactivation=linear\n",
    "adds maps of 6x8 and 3x4; a map n times as large can be added",
)
test_shortcut_of_another_shape_is_refused = refuses(
    SAME + "[crop]\ncrop_width=4\ncrop_height=2\n[shortcut]\nfrom=0\nactivation=linear\n",
    "adds maps of 2x4 and 6x8; a map n times as large can be added",
)
test_shortcut_of_values_is_refused = refuses(
    SAME + "[connected]\noutput=3\nactivation=linear\n[shortcut]\nfrom=0\nactivation=linear\n",
    "adds maps of  and 6x8",
)
test_factors_of_a_shortcut_are_refused = refuses(
    2 * SAME + "[shortcut]\nfrom=0\nalpha=2\nactivation=linear\n", "alpha=2 is not supported, only alpha=1"
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
test_route_names_sections = refuses(SAME + "[route]\ngroups=2\n", "(route): parameter 'layers' is missing")
test_shortcut_names_sections = refuses(SAME + "[shortcut]\n", "(shortcut): parameter 'from' is missing")
test_shortcut_has_no_layers = refuses(2 * SAME + "[shortcut]\nfrom=0\nlayers=1\n", "no field 'layers'")
test_other_sections_read_the_one_before = refuses(2 * SAME + "[maxpool]\nsize=2\nstride=2\nlayers=0\n", "'layers'")


def test_time_of_a_route_grows_with_its_sections(tmp_path: Path) -> None:
    path = tmp_path / "net.cfg"
    path.write_text("[net]\nwidth=1\nheight=1\nchannels=1\n[dropout]\n[route]\nlayers=" + "-1," * 5999 + "-1\n")
    start = perf_counter()
    assert anylayer.read(path).outputs["concat_1"].shape == (1, 6000, 1, 1)
    assert perf_counter() - start < 5
