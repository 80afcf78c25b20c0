"""Tests of numbers that should be uniform and independent; each gives a p-value."""
