"""Answers to compare with: without the noise, with the confidential data, in closed form."""
