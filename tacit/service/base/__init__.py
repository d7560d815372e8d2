"""What every service is made with: configuration, log lines, secrets in files, keys, stores."""
