"""Tests of the calls of a person."""
