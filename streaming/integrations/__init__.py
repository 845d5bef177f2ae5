"""Integrations: tools for assistants (MCP), and traces (OpenTelemetry). Each one needs an extra of this package."""
