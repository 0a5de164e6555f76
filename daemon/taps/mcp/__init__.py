"""The display tools: an MCP server whose calls and results are a stream of their own."""
