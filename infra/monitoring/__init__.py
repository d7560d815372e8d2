"""Monitoring of a stack by Prometheus and Grafana.

``alerts.yml`` holds the alert rules, ``alerts_test.yml`` their tests (``promtool test rules``), ``dashboard.json`` the
dashboard for Grafana; ``scraping`` lists the metrics listeners.
"""
