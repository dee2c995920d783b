"""A training script for tests: elastic, a loop of its own, and it keeps books as train_digits.py.

    EVENTS=DIRECTORY tfringrun --min-np 1 -np 3 python train_by_hand.py

Linear regression by `DistributedGradientTape` and an optimizer of Keras, which counts the steps.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from train_digits import Events

import tfring
from tfring import engine

SAMPLES, EPOCHS, STEP_S = 203, 4, 0.04


def main() -> None:
    batch = {sys.argv[1]: int(sys.argv[2])}
    tfring.init()
    tfring.set_seed(1)
    events = Events(Path(os.environ["EVENTS"]))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.5)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((SAMPLES, 3)).astype("float32")
    y = x @ np.array([[1.0], [2.0], [3.0]], "float32")
    sampler = tfring.elastic.Sampler(x, seed=2, **batch)
    dataset = sampler.dataset((np.arange(SAMPLES), x, y))
    state = tfring.elastic.TensorFlowState(
        model=model, optimizer=optimizer, sampler=sampler, epoch=0
    )

    @tf.function(reduce_retracing=True)
    def take_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tfring.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            weighted = loss
            if sampler.weighs_samples:
                weighted = tfring.elastic.weigh_loss(loss, tf.shape(x)[0])
        gradients = tape.gradient(weighted, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    @tfring.elastic.run
    def train(state: Any) -> None:
        for epoch in range(state.epoch, EPOCHS):
            state.epoch = epoch
            for indices, features, labels in dataset:
                if not engine.rehearsing():
                    events.write(
                        "attempt", step=state.completed_steps, indices=indices.numpy().tolist()
                    )
                take_step(features, labels)
                events.write("step", step=state.completed_steps, epoch=state.epoch)
                time.sleep(STEP_S)

    train(state)
    digest = hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
    error = float(np.mean((model(x) - y) ** 2))
    events.write("done", accuracy=1 - error, digest=digest)


if __name__ == "__main__":
    main()
