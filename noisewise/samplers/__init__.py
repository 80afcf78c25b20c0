"""Draws from unnormalised densities; nothing here knows of privacy."""
