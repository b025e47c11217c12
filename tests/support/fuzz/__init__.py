"""Odd inputs drawn from a seed, and an independent reading of them."""
