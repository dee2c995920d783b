"""Elastic jobs under attack: real processes, real signals."""
