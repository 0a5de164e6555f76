"""Mutation tests: changes the product in small ways, and checks whether a test notices."""
