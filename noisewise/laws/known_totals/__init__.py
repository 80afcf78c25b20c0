"""Counts with a known total: independent cells given their sum."""
