"""Answers what agents ask by the rules of the configuration: `[[answers]]`."""
