// ReLU with a slope for negative values. One work item computes one value.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void relu(const __global INPUT0_TYPE* input, __global OUTPUT0_TYPE* output) {
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    const int plane = get_global_id(2);  // B * F planes: OpenCL has three work sizes, and a tensor four axes
    const int b = plane / OUTPUT0_DIMS[1];
    const int f = plane % OUTPUT0_DIMS[1];
    const INPUT0_TYPE value = input[INPUT0_OFFSET + b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] +
                                    y * INPUT0_PITCHES[2] + x * INPUT0_PITCHES[3]];
    output[OUTPUT0_OFFSET + b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + y * OUTPUT0_PITCHES[2] +
           x * OUTPUT0_PITCHES[3]] = value < 0 ? value * slope : value;
}
