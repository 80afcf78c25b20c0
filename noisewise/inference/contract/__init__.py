"""What all methods share: settings and refusals, runs with budgets and journals, chains."""
