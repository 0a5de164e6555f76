"""Canonical tools: their names, payloads, previews and families (`registry.py`), whichever agent calls them."""
