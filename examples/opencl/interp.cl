// Bilinear interpolation; the corners of the output lie on the corners of the input. One work item computes one value.

#define AT(b, f, y, x) input[INPUT0_OFFSET + (b) * INPUT0_PITCHES[0] + (f) * INPUT0_PITCHES[1] + \
                             (y) * INPUT0_PITCHES[2] + (x) * INPUT0_PITCHES[3]]

// The distance between two output values, in input values.
float step_of(int from, int to) {
    return to > 1 ? (from - 1) / (float)(to - 1) : 0.0f;
}

__kernel void interp(const __global INPUT0_TYPE* input, __global OUTPUT0_TYPE* output) {
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    const int plane = get_global_id(2);
    const int b = plane / OUTPUT0_DIMS[1];
    const int f = plane % OUTPUT0_DIMS[1];

    const float row = y * step_of(INPUT0_DIMS[2], OUTPUT0_DIMS[2]);
    const float column = x * step_of(INPUT0_DIMS[3], OUTPUT0_DIMS[3]);
    const int top = min((int)row, INPUT0_DIMS[2] - 1);
    const int left = min((int)column, INPUT0_DIMS[3] - 1);
    const int bottom = min(top + 1, INPUT0_DIMS[2] - 1);
    const int right = min(left + 1, INPUT0_DIMS[3] - 1);
    const float v = row - top;
    const float u = column - left;

    const float above = (1 - u) * AT(b, f, top, left) + u * AT(b, f, top, right);
    const float below = (1 - u) * AT(b, f, bottom, left) + u * AT(b, f, bottom, right);
    output[OUTPUT0_OFFSET + b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + y * OUTPUT0_PITCHES[2] +
           x * OUTPUT0_PITCHES[3]] = (1 - v) * above + v * below;
}
