"""What the rest of infra stands on: names, ports, certificates, options without a stack."""
