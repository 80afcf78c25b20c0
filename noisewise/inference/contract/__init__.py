"""What all methods share: settings, budgets, simulations that are counted and remembered, chains,
refusals.
"""
