"""Learnt estimators on twenty or so black-box problems with exact posteriors: ours beside sbi's."""
