"""prior, simulator, query and mechanism as one model, and what may be observed of it."""
