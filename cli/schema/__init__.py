"""The command that prints the schema, and the schema itself, made from the structs of the protocol."""
