"""Data for several ranks: sharding, and readers of image sets."""

from __future__ import annotations

from tfring.data.digits import load_digits
from tfring.data.idx import load_idx, read_idx
from tfring.data.image_folder import ImageFolder, load_image_folder
from tfring.data.image_set import ImageSet
from tfring.data.in_step import in_step
from tfring.data.load_images import load_images
from tfring.data.partition import shard_indices, shard_length
from tfring.data.shard import shard, shard_arrays

__all__ = [
    "ImageFolder",
    "ImageSet",
    "in_step",
    "load_digits",
    "load_idx",
    "load_images",
    "load_image_folder",
    "read_idx",
    "shard",
    "shard_arrays",
    "shard_indices",
    "shard_length",
]
