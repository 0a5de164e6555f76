"""The receiver of OpenTelemetry: what agents send over OTLP/HTTP becomes lines of streams, one for each session."""
