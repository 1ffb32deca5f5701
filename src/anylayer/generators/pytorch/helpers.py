"""Functions that the code of a module may need because torch has none: their text is copied into the module."""

from __future__ import annotations

HELPERS = {
    "expect_shape": """
# Raise ValueError for an input of other sizes than those that this code is for; None stands for any size
def expect_shape(name: str, x: Tensor, shape: tuple[int | None, ...]) -> None:
    if x.dim() != len(shape) or any(want not in (None, got) for want, got in zip(shape, x.shape, strict=True)):
        raise ValueError(f"input {name} must have the shape {shape}, got {tuple(x.shape)}; generate code for it")
""",
    "non_max_suppression": """
# Keep the best boxes of each class that do not overlap a better one
def non_max_suppression(boxes: Tensor, scores: Tensor, limit: int, overlap: float, least: float) -> Tensor:
    rows = [torch.zeros((0, 3), dtype=torch.int64)]
    for image in range(boxes.shape[0]):
        low = torch.minimum(boxes[image, :, :2], boxes[image, :, 2:])
        high = torch.maximum(boxes[image, :, :2], boxes[image, :, 2:])
        area = (high - low).prod(1)
        for kind in range(scores.shape[1]):
            order = torch.sort(scores[image, kind], descending=True, stable=True).indices
            order = order[scores[image, kind, order] > least]
            kept = []
            while len(order) and len(kept) < limit:
                best, order = order[0], order[1:]
                kept.append(best)
                sides = torch.minimum(high[best], high[order]) - torch.maximum(low[best], low[order])
                common = sides.clamp(min=0).prod(1)
                order = order[(common <= 0) | ~(common / (area[best] + area[order] - common) > overlap)]
            if kept:
                found = torch.stack(kept)
                rows.append(torch.stack([torch.full_like(found, image), torch.full_like(found, kind), found], 1))
    return torch.cat(rows)
""",
    "roi_align": """
# Sample regions of x: each bin is the mean of ratio * ratio bilinear samples (0: one per cell, rounded up)
def roi_align(
    x: Tensor, rois: Tensor, images: Tensor, size: tuple[int, int], ratio: int, scale: float, offset: float
) -> Tensor:
    def weights(start: Tensor, extent: Tensor, bins: int, cells: int) -> Tensor:
        step = extent / bins
        grid = ratio or int(torch.ceil(step))
        if grid < 1:
            return x.new_zeros((bins, cells))
        at = start + torch.arange(bins).unsqueeze(1) * step + (torch.arange(grid) + 0.5) * step / grid
        inside = (at >= -1) & (at <= cells)
        away = torch.abs(at.clamp(0, cells - 1).unsqueeze(2) - torch.arange(cells))
        return (torch.relu(1 - away) * inside.unsqueeze(2)).mean(1)

    corners = rois * scale - offset
    extents = corners[:, 2:] - corners[:, :2]
    if not offset:
        extents = extents.clamp(min=1)
    found = []
    for region in range(rois.shape[0]):
        rows = weights(corners[region, 1], extents[region, 1], size[0], x.shape[2])
        columns = weights(corners[region, 0], extents[region, 0], size[1], x.shape[3])
        found.append(rows @ x[images[region]] @ columns.T)
    return torch.stack(found) if found else x.new_zeros((0, x.shape[1], *size))
""",
    "max_roi_pool": """
# Return the maximum of each bin of regions of x; cells on the border of two bins belong to both, an empty bin is 0
def max_roi_pool(x: Tensor, rois: Tensor, size: tuple[int, int], scale: float) -> Tensor:
    def bins(start: int, end: int, count: int, cells: int) -> list[tuple[int, int]]:
        step = torch.tensor(float(max(end - start + 1, 1))) / count
        edges = torch.arange(count + 1) * step
        low = (torch.floor(edges[:-1]).long() + start).clamp(0, cells)
        high = (torch.ceil(edges[1:]).long() + start).clamp(0, cells)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    scaled = rois[:, 1:] * scale
    corners = (torch.sign(scaled) * torch.floor(torch.abs(scaled) + 0.5)).long().tolist()
    found = []
    for image, (x1, y1, x2, y2) in zip(rois[:, 0].long().tolist(), corners, strict=True):
        for top, bottom in bins(y1, y2, size[0], x.shape[2]):
            for left, right in bins(x1, x2, size[1], x.shape[3]):
                part = x[image, :, top:bottom, left:right]
                found.append(part.amax((1, 2)) if part.shape[1] * part.shape[2] else x.new_zeros(x.shape[1]))
    whole = torch.stack(found) if found else x.new_zeros((0, x.shape[1]))
    return whole.reshape(rois.shape[0], size[0], size[1], x.shape[1]).permute(0, 3, 1, 2)
""",
    "gru": """
# A GRU that multiplies the state by the reset gate before the product; gates in the order z, r, h
def gru(x: Tensor, state: Tensor, w: Tensor, r: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    size = state.shape[1]
    found = []
    for part in x @ w.T + bias:
        gates = torch.sigmoid(part[:, : 2 * size] + state @ r[: 2 * size].T)
        update, reset = gates[:, :size], gates[:, size:]
        new = torch.tanh(part[:, 2 * size :] + (reset * state) @ r[2 * size :].T)
        state = (1 - update) * new + update * state
        found.append(state)
    return torch.stack(found), state
""",
}
"""The text of each function, by its name."""
