"""What the methods that learn share: simulations, features, spaces, training, files."""
