"""q(theta | s_dp), learnt from private simulations."""
