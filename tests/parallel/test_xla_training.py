"""`jit_compile=True`: the collective is part of the compiled step, and the results are those of
training without XLA."""

from __future__ import annotations

import pytest


def compiled_step() -> dict[str, int]:
    import tensorflow as tf

    import tfring

    kernel = tf.Variable(tf.ones([8, 4]))

    @tf.function(jit_compile=True)
    def step(x):
        with tfring.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean(tf.matmul(x, kernel) ** 2)
        kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
        return loss

    x = tf.random.stateless_normal([16, 8], [tfring.rank(), 0])
    before = tfring.engine.counters().allreduce_operations
    step(x)
    module = step.experimental_get_compiler_ir(x)(stage="hlo")
    return {
        "modules": module.count("HloModule"),
        "products": module.count(" dot("),
        "calls": module.count('custom_call_target="TfringCollective"'),
        "reductions": tfring.engine.counters().allreduce_operations - before,
    }


def test_one_compiled_module_holds_model_and_collective(warm_ranks) -> None:
    """A function with `jit_compile=True` runs as one module or not at all."""
    for found in warm_ranks(compiled_step):
        assert found["modules"] == 1
        assert found["products"] >= 2  # forward and backward
        assert found["calls"] >= 1
        assert found["reductions"] == 1


def fit(jit_compile: bool) -> tuple[list[list[float]], list[float], list[str], int]:
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    import tfring.callbacks

    kinds: set[str] = set()

    class Recording(keras.optimizers.Adam):
        """Notes of which kinds the operations are that reduced the gradients."""

        def update_step(self, gradient, variable, learning_rate):
            graph = tf.compat.v1.get_default_graph()
            kinds.update(operation.type for operation in graph.get_operations())
            return super().update_step(gradient, variable, learning_rate)

    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(4), keras.layers.Dense(1)]
    )
    optimizer = tfring.DistributedOptimizer(Recording(0.01, clipnorm=1.0))
    model.compile(optimizer, "mse", metrics=["mae"], jit_compile=jit_compile)
    x = np.random.default_rng(tfring.rank()).normal(size=(64, 6)).astype(np.float32)
    before = tfring.engine.counters().allreduce_operations
    history = model.fit(
        x,
        x.sum(axis=1, keepdims=True),
        batch_size=16,
        epochs=3,
        shuffle=False,
        verbose=0,
        callbacks=[
            tfring.callbacks.BroadcastInitialVariables(),
            tfring.callbacks.AverageMetrics(),
        ],
    )
    reductions = tfring.engine.counters().allreduce_operations - before
    ours = sorted(kind for kind in kinds if kind.startswith(("Tfring", "XlaCustomCall")))
    weights = [w.ravel().tolist() for w in model.get_weights()]
    return weights, history.history["loss"], ours, reductions


@pytest.mark.timeout(180)
def test_fit_gives_the_results_of_training_without_xla(warm_ranks) -> None:
    compiled = warm_ranks(fit, True)
    plain = warm_ranks(fit, False)
    for (weights, losses, kinds, reductions), (others, other_losses, *_) in zip(
        compiled, plain, strict=True
    ):
        assert kinds == ["XlaCustomCallV2"], "no other way to reduce is in the compiled step"
        assert reductions >= 12
        assert losses == pytest.approx(other_losses, rel=1e-5)
        for one, other in zip(weights, others, strict=True):
            assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
    assert all(weights == compiled[0][0] for weights, *_ in compiled)
