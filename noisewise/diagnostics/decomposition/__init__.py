"""Where the uncertainty of a posterior comes from: sampling, clamping, or privacy."""
