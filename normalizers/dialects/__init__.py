"""Families of dialects, one folder each: recognition rules, parsers, agents. Depends on `catalog` and the layers below
it."""
