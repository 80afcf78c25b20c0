"""Methods whose draws come from the exact posterior, up to their number."""
