"""Releases as tables: the labels of cells, and releases from data frames."""
