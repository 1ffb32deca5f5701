"""Split."""

from tests.layers.harness import case, ramp

test_twice = case("Split", inputs=[ramp(2)], outputs=[ramp(2), ramp(2)])
