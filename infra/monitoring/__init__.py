"""What a Prometheus and a Grafana are told about a stack.

``alerts.yml`` are the rules, ``alerts_test.yml`` their tests (``promtool test rules``), ``dashboard.json`` what Grafana
imports; ``scraping`` says which listeners there are.
"""
