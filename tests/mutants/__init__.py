"""Tests of the tests: changes the product in small ways, and looks whether a test notices."""
