// Layers written by hand as OpenCL kernels, for benchmarks/targets.py. Each work item computes one element of the output
// (X, Y, B * F), unless the configuration states other work sizes. HAND_<layer> selects the kernel.
#define FROM(b, f, y, x) input[INPUT0_OFFSET + (b) * INPUT0_PITCHES[0] + (f) * INPUT0_PITCHES[1] + \
                               (y) * INPUT0_PITCHES[2] + (x) * INPUT0_PITCHES[3]]
#define TO(b, f, y, x) output[OUTPUT0_OFFSET + (b) * OUTPUT0_PITCHES[0] + (f) * OUTPUT0_PITCHES[1] + \
                              (y) * OUTPUT0_PITCHES[2] + (x) * OUTPUT0_PITCHES[3]]
#define PLACE                                                                             \
    const int x = get_global_id(0), y = get_global_id(1), plane = get_global_id(2);       \
    const int b = plane / OUTPUT0_DIMS[1], f = plane % OUTPUT0_DIMS[1];
#define ONE const __global INPUT0_TYPE *input, __global OUTPUT0_TYPE *output
#define TWO const __global INPUT0_TYPE *input, const __global INPUT1_TYPE *second, __global OUTPUT0_TYPE *output

#ifdef HAND_Chain
__kernel void hand(ONE) {
    PLACE
    const float value = FROM(b, f, y, x);
    TO(b, f, y, x) = fmax(value * 2.0f + 1.0f, 0.0f) * value - 3.0f;
}
#endif

#ifdef HAND_Logistic
__kernel void hand(ONE) {
    PLACE
    TO(b, f, y, x) = 1.0f / (1.0f + exp(-FROM(b, f, y, x)));
}
#endif

#if defined(HAND_Interp) || defined(HAND_ResizeBilinear)
__kernel void hand(ONE) {
    PLACE
#ifdef HAND_Interp
    const float row = y * ((INPUT0_DIMS[2] - 1) / (float)(OUTPUT0_DIMS[2] - 1));
    const float column = x * ((INPUT0_DIMS[3] - 1) / (float)(OUTPUT0_DIMS[3] - 1));
#else
    const float row = y * (INPUT0_DIMS[2] / (float)OUTPUT0_DIMS[2]);
    const float column = x * (INPUT0_DIMS[3] / (float)OUTPUT0_DIMS[3]);
#endif
    const int top = (int)row, left = (int)column;
    const int bottom = min(top + 1, INPUT0_DIMS[2] - 1), right = min(left + 1, INPUT0_DIMS[3] - 1);
    const float v = row - top, u = column - left;
    const float above = (1 - u) * FROM(b, f, top, left) + u * FROM(b, f, top, right);
    const float below = (1 - u) * FROM(b, f, bottom, left) + u * FROM(b, f, bottom, right);
    TO(b, f, y, x) = (1 - v) * above + v * below;
}
#endif

#ifdef HAND_Reverse
__kernel void hand(ONE) {
    PLACE
    TO(b, f, y, x) = FROM(b, f, y, INPUT0_DIMS[3] - 1 - x);
}
#endif

#ifdef HAND_Upsample
__kernel void hand(ONE) {
    PLACE
    TO(b, f, y, x) = FROM(b, f, y / 2, x / 2) * 2.0f;
}
#endif

#ifdef HAND_Normalize
// A work item per pixel (X, Y, B).
__kernel void hand(ONE) {
    const int x = get_global_id(0), y = get_global_id(1), b = get_global_id(2);
    float sum = 1e-10f;
    for (int f = 0; f < INPUT0_DIMS[1]; ++f) sum += FROM(b, f, y, x) * FROM(b, f, y, x);
    const float length = sqrt(sum);
    for (int f = 0; f < INPUT0_DIMS[1]; ++f) TO(b, f, y, x) = FROM(b, f, y, x) / length;
}
#endif

#ifdef HAND_Reorg
__kernel void hand(ONE) {
    PLACE
    const int part = f / INPUT0_DIMS[1];
    TO(b, f, y, x) = FROM(b, f % INPUT0_DIMS[1], 2 * y + part / 2, 2 * x + part % 2);
}
#endif

#ifdef HAND_ShuffleChannel
__kernel void hand(ONE) {
    PLACE
    TO(b, f, y, x) = FROM(b, f % 3 * (INPUT0_DIMS[1] / 3) + f / 3, y, x);
}
#endif

#ifdef HAND_Crop
__kernel void hand(TWO) {
    PLACE
    TO(b, f, y, x) = FROM(b, f, y + (INPUT0_DIMS[2] - INPUT1_DIMS[2]) / 2, x + (INPUT0_DIMS[3] - INPUT1_DIMS[3]) / 2);
}
#endif

#ifdef HAND_Yolo
// A work item per element of the input.
__kernel void hand(const __global INPUT0_TYPE *input, __global OUTPUT0_TYPE *place, __global OUTPUT1_TYPE *chance,
                   __global OUTPUT2_TYPE *classes) {
    const int values = INPUT0_DIMS[1] / 3, area = INPUT0_DIMS[2] * INPUT0_DIMS[3];
    const int x = get_global_id(0), y = get_global_id(1), plane = get_global_id(2);
    const int b = plane / INPUT0_DIMS[1], f = plane % INPUT0_DIMS[1], box = f / values, value = f % values;
    const int at = box * area + y * INPUT0_DIMS[3] + x;
    const float raw = FROM(b, f, y, x), sigma = 1.0f / (1.0f + exp(-raw));
    if (value < 2) place[b * OUTPUT0_PITCHES[0] + value * 3 * area + at] = sigma;
    else if (value < 4) place[b * OUTPUT0_PITCHES[0] + (5 - value) * 3 * area + at] = raw;
    else if (value == 4) chance[b * OUTPUT1_PITCHES[0] + at] = sigma;
    else classes[b * OUTPUT2_PITCHES[0] + (value - 5) * 3 * area + at] = sigma;
}
#endif

#ifdef HAND_SpatialTransformer
__kernel void hand(TWO) {
    PLACE
    const __global INPUT1_TYPE *t = second + b * INPUT1_PITCHES[0];
    const int h = INPUT0_DIMS[2], w = INPUT0_DIMS[3];
    const float i = y * (2.0f / OUTPUT0_DIMS[2]) - 1.0f, j = x * (2.0f / OUTPUT0_DIMS[3]) - 1.0f;
    const float row = (t[0] * i + t[1] * j + t[2] + 1.0f) * (h / 2.0f);
    const float column = (t[3] * i + t[4] * j + t[5] + 1.0f) * (w / 2.0f);
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
        const float r = floor(row) + k / 2, c = floor(column) + k % 2;
        if (r >= 0 && r < h && c >= 0 && c < w)
            sum += FROM(b, f, (int)r, (int)c) * ((1.0f - fabs(row - r)) * (1.0f - fabs(column - c)));
    }
    TO(b, f, y, x) = sum;
}
#endif

#ifdef HAND_ROIAlign
__kernel void hand(TWO) {
    PLACE
    const __global INPUT1_TYPE *roi = second + b * INPUT1_PITCHES[0];
    const int h = INPUT0_DIMS[2], w = INPUT0_DIMS[3], image = (int)roi[0];
    const float left = roi[1] * 0.25f, top = roi[2] * 0.25f;
    const float wide = fmax(roi[3] * 0.25f - left, 1.0f), high = fmax(roi[4] * 0.25f - top, 1.0f);
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
        float row = top + (2 * y + k / 2 + 0.5f) / (2 * OUTPUT0_DIMS[2]) * high;
        float column = left + (2 * x + k % 2 + 0.5f) / (2 * OUTPUT0_DIMS[3]) * wide;
        if (row < -1.0f || row > h || column < -1.0f || column > w) continue;
        row = clamp(row, 0.0f, h - 1.0f);
        column = clamp(column, 0.0f, w - 1.0f);
        const int r = (int)row, c = (int)column, below = min(r + 1, h - 1), right = min(c + 1, w - 1);
        const float v = row - r, u = column - c;
        sum += (1 - v) * ((1 - u) * FROM(image, f, r, c) + u * FROM(image, f, r, right)) +
               v * ((1 - u) * FROM(image, f, below, c) + u * FROM(image, f, below, right));
    }
    TO(b, f, y, x) = sum / 4;
}
#endif
