"""Views of a running mirror over HTTP: metrics, health, status as JSON, and a status page."""
