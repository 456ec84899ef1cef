"""The host interface: structures in host memory, completions, settings."""
