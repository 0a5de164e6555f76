"""What is shown of calls: a module for each family of tools."""
