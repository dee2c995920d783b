"""scikit-learn's handwritten digits: real images that come with its wheel."""

from __future__ import annotations

import numpy as np

from tfring.data.array_images import image_set_of_arrays
from tfring.data.image_set import ImageSet

_VALIDATION_IMAGES = 360
# The division into training and validation is part of the data set, not of an experiment.
_SPLIT_SEED = 20


def load_digits() -> ImageSet:
    """1,797 handwritten digits, 8x8 pixels in 17 shades, by 43 people.

    E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, 1998. 1,437 of them are for training and 360 for validation.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the digits come with scikit-learn, which is not installed: pip install scikit-learn",
            name=error.name,
        ) from error
    bunch = datasets.load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
    images, labels = images[order], bunch.target[order]
    return image_set_of_arrays(
        "digits",
        tuple(map(str, range(10))),
        train=(images[:-_VALIDATION_IMAGES], labels[:-_VALIDATION_IMAGES]),
        validation=(images[-_VALIDATION_IMAGES:], labels[-_VALIDATION_IMAGES:]),
    )
