"""The bodies of tool calls: a module for each family of tools."""
