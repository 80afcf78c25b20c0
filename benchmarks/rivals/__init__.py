"""Contenders from other packages, each as its documentation has it."""
