"""The cards of the canonical tools, a module for each tool family. They know payloads, and nothing of providers."""
