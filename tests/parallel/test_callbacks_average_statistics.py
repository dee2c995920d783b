"""Moving statistics are those of all ranks when a model is evaluated or saved."""

from __future__ import annotations

from tfring import engine


def fit_with_batch_normalization():
    import keras
    import numpy as np

    import tfring
    from tfring.variables import weights_digest

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(tfring.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    rank = engine.rank()
    x = np.random.default_rng(rank).normal(rank, 1 + rank, (32, 4)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)
    begin = tfring.callbacks.BroadcastInitialVariables()
    model.fit(x, y, batch_size=8, epochs=1, callbacks=[begin], verbose=0)
    apart = weights_digest(model.weights)
    means = model.layers[1].moving_mean.numpy()
    average = tfring.callbacks.AverageStatistics()
    model.evaluate(x, y, callbacks=[average], verbose=0)
    together = weights_digest(model.weights)
    averaged = model.layers[1].moving_mean.numpy()
    model.fit(x, y, batch_size=8, epochs=1, callbacks=[begin, average], verbose=0)
    return apart, means.tolist(), together, averaged.tolist(), weights_digest(model.weights)


def test_statistics_are_averaged_before_evaluation_and_after_an_epoch(warm_ranks, ranks):
    import numpy as np

    apart, means, together, averaged, after = zip(
        *warm_ranks(fit_with_batch_normalization), strict=True
    )
    assert len(set(apart)) == ranks
    assert len(set(together)) == 1
    assert len(set(after)) == 1
    np.testing.assert_allclose(averaged[0], np.mean(means, axis=0), rtol=1e-5)
