"""Tests that text from outside reaches a terminal as inert text only."""
