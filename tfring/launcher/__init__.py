"""tfringrun: starts the workers of a job on one or several hosts. Never imports TensorFlow."""
