"""For other programs: tools for assistants (MCP), and traces (OpenTelemetry). Each needs an extra of this package."""
