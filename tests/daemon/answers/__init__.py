"""Tests of the rules that answer permission requests."""
