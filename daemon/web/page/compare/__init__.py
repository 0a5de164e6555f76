"""Compare: two sessions beside each other."""
