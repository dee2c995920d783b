"""Batches become iterators of the type that they came from."""

from __future__ import annotations

import tensorflow as tf

from tfring.data.refeed import Refeed


def test_a_traced_function_takes_both_iterators_without_tracing_again() -> None:
    x = tf.reshape(tf.range(30.0), [10, 3])
    dataset = tf.data.Dataset.from_tensor_slices((x, tf.range(10))).batch(4)
    traces = []

    @tf.function(reduce_retracing=True)
    def total(iterator):
        traces.append(1)
        return tf.reduce_sum(next(iterator)[0])

    iterator = iter(dataset)
    refeed = Refeed(iterator.element_spec)
    sums = [float(total(iterator))]
    first, second = next(iterator), next(iterator)
    again = refeed.iterator([first, second])
    assert again.element_spec == iterator.element_spec
    sums += [float(total(again)), float(total(again))]
    assert next(again, None) is None
    assert sums == [float(tf.reduce_sum(x[i : i + 4])) for i in (0, 4, 8)]
    assert len(traces) == 1


def test_ragged_and_missing_elements() -> None:
    ragged = tf.ragged.constant([[1], [2, 3], []])
    optional = tf.data.Dataset.from_tensors(tf.experimental.Optional.from_value(3)).repeat(3)
    dataset = tf.data.Dataset.zip(tf.data.Dataset.from_tensor_slices(ragged), optional)
    iterator = iter(dataset)
    batch = next(iterator)
    again = next(Refeed(iterator.element_spec).iterator([batch]))
    assert again[0].numpy().tolist() == [1]
    assert int(again[1].get_value()) == 3
