"""Analyses of real files that others have published, beside what they found."""
