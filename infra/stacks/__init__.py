"""Local stacks: their layout on disk, their configurations, their processes."""
