"""A staging deployment in containers: a compose file with a network and a database for each organisation, by Podman."""
