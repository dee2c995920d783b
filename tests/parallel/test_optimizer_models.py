"""Every way to train with Keras: loops of its own and of the user's, several optimizers."""

from __future__ import annotations

import pytest


def sgd(**more):
    import keras

    return keras.optimizers.SGD(0.1, momentum=0.9, **more)


def eagerly() -> None:
    from harness import training

    eager = {"options": {"run_eagerly": True}}
    assert training.compare(sgd, **eager) == 6
    assert training.compare(sgd, micro_steps=2, steps=3, **eager) == 3


def several_steps_in_one_call() -> None:
    from harness import training

    assert training.compare(sgd, options={"steps_per_execution": 3}) == 6


def compiled_by_xla() -> None:
    from harness import training

    xla = {"options": {"jit_compile": True}}
    assert training.compare(sgd, micro_steps=2, steps=3, **xla) == 3
    words = {"make_model": training.reader, "make_examples": training.sentences}
    assert training.compare(sgd, steps=3, **xla, **words) == 3
    both = {"jit_compile": True, "steps_per_execution": 3}
    assert training.compare(sgd, options=both) == 6


def subclassed_model_with_its_own_step() -> None:
    import keras
    import tensorflow as tf

    from harness import training

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras.layers.Dense(8, activation="tanh")
            self.top = keras.layers.Dense(training.CLASSES)
            self.unused = keras.layers.Dense(2)
            self.unused.build((None, 3))

        def call(self, x):
            return self.top(self.hidden(x))

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    def make():
        keras.utils.set_random_seed(3)
        net = Net()
        net(training.examples(1)[0])
        return net

    model, reference = make(), make()
    x, y = batches_of_all()
    model.compile(distributed_sgd(), training.loss())
    training.fit(model, training.mine(x, 4), training.mine(y, 4), 4)
    training.assert_ranks_agree(model)
    reference.compile(sgd(), training.loss())
    training.fit(reference, x, y, len(x) // 6)
    training.assert_close(model, reference)


def batches_of_all(steps: int = 6):
    import tfring
    from harness import training

    return training.examples(steps * 4 * tfring.size())


def distributed_sgd():
    import tfring

    return tfring.DistributedOptimizer(sgd())


def layers_frozen_and_unfrozen() -> None:
    """Gradients come and go between compilations, and with one optimizer for both."""
    import keras

    from harness import training

    def train(model, make_optimizer, x, y, batch):
        for trainable in (True, False, True):
            model.layers[0].trainable = trainable
            model.compile(make_optimizer(), training.loss())
            training.fit(model, x, y, batch)

    model, reference = training.classifier(), training.classifier()
    x, y = batches_of_all()
    train(model, distributed_sgd, training.mine(x, 4), training.mine(y, 4), 4)
    training.assert_ranks_agree(model)
    train(reference, sgd, x, y, len(x) // 6)
    training.assert_close(model, reference)

    model, reference = training.classifier(), training.classifier()
    kept, plain = distributed_sgd(), sgd()
    assert isinstance(kept, keras.optimizers.SGD)
    train(model, lambda: kept, training.mine(x, 4), training.mine(y, 4), 4)
    training.assert_ranks_agree(model)
    train(reference, lambda: plain, x, y, len(x) // 6)
    training.assert_close(model, reference)


def two_optimizers_in_one_step() -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    from harness import training
    from tfring.optimizer import require_distributed
    from tfring.variables import assert_identical

    class Gan(keras.Model):
        def __init__(self):
            super().__init__()
            self.generator = keras.layers.Dense(training.FEATURES)
            self.critic = keras.layers.Dense(1)
            self.generator.build((None, 3))
            self.critic.build((None, training.FEATURES))
            self.built = True

        def compile(self, wrap, eager):
            super().compile(run_eagerly=eager)
            self.generator_optimizer = wrap(keras.optimizers.Adam(0.01))
            self.critic_optimizer = wrap(keras.optimizers.Adam(0.02))

        def train_step(self, x):
            noise = x[:, :3]
            with tf.GradientTape() as tape:
                fake = self.critic(self.generator(noise))
                loss = tf.reduce_mean(tf.nn.softplus(fake) + tf.nn.softplus(-self.critic(x)))
            update(tape, loss, self.critic_optimizer, self.critic)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.softplus(-self.critic(self.generator(noise))))
            update(tape, loss, self.generator_optimizer, self.generator)
            return {"loss": loss}

    def update(tape, loss, optimizer, layer):
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    def make(wrap, eager=False):
        keras.utils.set_random_seed(4)
        gan = Gan()
        gan.compile(wrap, eager)
        return gan

    def fit(gan, x, batch):
        gan.fit(tf.data.Dataset.from_tensor_slices(x).batch(batch), verbose=0)

    x = batches_of_all()[0]
    reference = make(lambda optimizer: optimizer)
    fit(reference, x, len(x) // 6)
    for eager in (False, True):
        gan = make(tfring.DistributedOptimizer, eager)
        require_distributed(gan)
        own = training.mine(x, 4)
        assert training.reductions(lambda gan=gan, own=own: fit(gan, own, 4)) == 6 * 2
        assert_identical([*gan.weights, *gan.generator_optimizer.variables])
        for weight, other in zip(gan.weights, reference.weights, strict=True):
            np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)


def ranks_that_trace_unlike() -> None:
    """Other batch sizes, a model built beforehand, a second trace: names do not depend on it."""
    import keras
    import tensorflow as tf

    import tfring
    from harness import training

    if tfring.rank() == 0:
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).compile("adam", "mse")
    model = training.classifier()
    model.compile(distributed_sgd(), training.loss())
    sizes = [4, 4, 2, 4, 3] if tfring.rank() == 0 else [4, 4, 4, 4, 4]
    x, y = training.examples(20, seed=tfring.rank())

    def batches():
        start = 0
        for size in sizes:
            yield x[start : start + size], y[start : start + size]
            start += size

    shapes = (
        tf.TensorSpec((None, training.FEATURES), tf.float32),
        tf.TensorSpec((None,), tf.int64),
    )
    for size in sizes:
        model.train_on_batch(x[:size], y[:size])
    model.fit(tf.data.Dataset.from_generator(batches, output_signature=shapes), verbose=0)
    training.assert_ranks_agree(model)


def compiled_twice() -> None:
    from harness import training

    model = training.classifier()
    optimizer = distributed_sgd()
    x, y = batches_of_all()
    x, y = training.mine(x, 4), training.mine(y, 4)
    for _ in range(2):
        model.compile(optimizer, training.loss())
        training.fit(model, x, y, 4)
    assert int(optimizer.iterations) == 12
    training.assert_ranks_agree(model)


def different_models_are_an_error() -> None:
    import keras
    import tensorflow as tf

    import tfring
    from harness import training

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4 + tfring.rank())])
    model.compile(distributed_sgd(), training.loss())
    before = [weight.numpy() for weight in model.weights]
    with pytest.raises(tf.errors.OpError, match="rank"):
        training.fit(model, *training.examples(4), 4)
    assert all((w.numpy() == b).all() for w, b in zip(model.weights, before, strict=True))
    assert int(model.optimizer.iterations) == 0


@pytest.mark.parametrize(
    "check",
    [
        eagerly,
        several_steps_in_one_call,
        compiled_by_xla,
        subclassed_model_with_its_own_step,
        layers_frozen_and_unfrozen,
        two_optimizers_in_one_step,
        ranks_that_trace_unlike,
        compiled_twice,
        different_models_are_an_error,
    ],
)
def test_training(warm_ranks, check) -> None:
    warm_ranks(check)
