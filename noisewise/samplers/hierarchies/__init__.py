"""Chains for many effects around means with spreads, each effect centred by its own share."""
