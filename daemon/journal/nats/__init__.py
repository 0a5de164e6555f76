"""The journal on NATS JetStream, shared by many daemons. The only folder that imports the package `nats`."""
