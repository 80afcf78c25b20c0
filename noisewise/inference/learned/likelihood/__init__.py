"""q(s_dp | theta), learnt for one mechanism."""
