"""How programs are compiled: with which options, and in the background."""
