"""Measurements of tfring and its peers on the same work in the same run."""
