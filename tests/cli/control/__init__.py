"""Tests of the commands that tell agents something."""
