"""q(s | theta), learnt once for every mechanism."""
