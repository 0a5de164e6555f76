"""The display tools: an MCP server whose calls and results become a stream."""
