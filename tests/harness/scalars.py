"""What a TensorBoard log holds."""

from __future__ import annotations

from pathlib import Path


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) by tag, of all files in a directory."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(directory), size_guidance={"tensors": 0})
    events.Reload()
    tags = {}
    for tag in events.Tags()["tensors"]:
        if tag != "keras":  # the model's graph
            tags[tag] = [
                (e.step, float(tensor_util.make_ndarray(e.tensor_proto)))
                for e in events.Tensors(tag)
            ]
    return tags
