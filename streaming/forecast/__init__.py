"""What a change would cost a live group under each protocol, and what stands between it and another protocol."""
