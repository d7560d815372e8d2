"""What happens to every request of the admin API, and its documents."""
