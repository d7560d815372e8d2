"""Files and folders: durable changes, locks, and logs that lie in a folder."""
