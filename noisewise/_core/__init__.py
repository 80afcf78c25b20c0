"""Common ground: what every room may use, and what knows none of them."""
