"""Sends what sessions did to a collector of OpenTelemetry, while they go on."""
