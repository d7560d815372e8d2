"""What every part of the admin service uses: its configuration, its problem documents, its threads."""
