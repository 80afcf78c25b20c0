"""Methods for statistics whose law is known: the confidential statistic is summed out."""
