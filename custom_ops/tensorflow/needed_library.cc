// Nothing. CMake builds two empty libraries from it that bear the names of TensorFlow's, so
// that the linker writes those names into libtfring_tf.so without TensorFlow being there.
