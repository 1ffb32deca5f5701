  // The boxes depend on the params only: compute them once for each layer.
  static std::map<const void*, std::vector<float> > computed;
  std::vector<float>& output = computed[param];
  if (!output.empty()) {
    INSERT_put
    return;
  }
  const INSERT_type *box_param = reinterpret_cast<const INSERT_type*>(param);
  output.resize(layer.output_dim[0] * layer.output_dim[1]);

  // Half of the boxes' widths and heights
  std::vector<float> widths, heights;
  const std::vector<float> min_sizes = listed(box_param->min_size), max_sizes = listed(box_param->max_size);
  for (size_t i = 0; i < min_sizes.size(); ++i) {
    bool first = true;
    for (float ratio : box_param->aspect_ratios) {
      if (ratio == 1.f) {
        const float size = first ? min_sizes[i] : std::sqrt(min_sizes[i] * max_sizes[i]);
        widths.push_back(0.5f * size);
        heights.push_back(0.5f * size);
      } else {
        widths.push_back(0.5f * min_sizes[i] * std::sqrt(ratio));
        heights.push_back(0.5f * min_sizes[i] / std::sqrt(ratio));
      }
      first = false;
    }
  }

  const int num_variances = sizeof(box_param->variances) / sizeof(box_param->variances[0]);
  static_assert(num_variances == 1 || num_variances == 4, "Number of variances must be either 1 or 4.");
  prior_box_t box;
  box.xv = box_param->variances[0];
  box.yv = box_param->variances[num_variances == 4 ? 1 : 0];
  box.wv = box_param->variances[num_variances == 4 ? 2 : 0];
  box.hv = box_param->variances[num_variances == 4 ? 3 : 0];

  const float width = box_param->img_size[0], height = box_param->img_size[1];
  const float step_x = INSERT_step_x, step_y = INSERT_step_y, offset = INSERT_offset;
  size_t count = 0;
  for (int y = 0; y < layer.input_dim[1]; ++y) {
    const float center_y = step_y * (y + offset);
    for (int x = 0; x < layer.input_dim[0]; ++x) {
      const float center_x = step_x * (x + offset);
      for (size_t p = 0; p < widths.size(); ++p) {
        box.x0 = (center_x - widths[p]) / width;
        box.y0 = (center_y - heights[p]) / height;
        box.x1 = (center_x + widths[p]) / width;
        box.y1 = (center_y + heights[p]) / height;
        if (box_param->clip) {
          box.x0 = box_clip(box.x0);
          box.y0 = box_clip(box.y0);
          box.x1 = box_clip(box.x1);
          box.y1 = box_clip(box.y1);
        }
        INSERT_place
        ++count;
      }
    }
  }
  INSERT_put
}
