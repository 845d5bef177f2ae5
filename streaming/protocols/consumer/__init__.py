"""The consumer protocol (KIP-848), with the online migration of groups from and to the classic protocol."""
