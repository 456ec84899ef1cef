"""Traffic: scenarios from captures and from seeded generators."""
