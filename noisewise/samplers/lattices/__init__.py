"""Moves of whole numbers that keep given sums."""
