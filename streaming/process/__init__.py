"""What every long-running process needs: child processes, its log, its metrics port."""
