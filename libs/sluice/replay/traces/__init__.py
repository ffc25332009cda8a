"""One trace for each job, made from the log: for Jaeger, Tempo, and whatever else takes OpenTelemetry's."""

__all__ = ["export", "fold"]
