"""Methods that learn a density from simulations."""
