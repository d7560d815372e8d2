#!/bin/sh
# Runs the PostgreSQL server of one organisation. The first start creates its files, with a role and a database for each
# service. It accepts connections over TLS only. ADDRESS: the address at which it listens.
set -eu
PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"
files=/etc/tacit
data=/var/lib/tacit/data
if [ ! -f "$data/complete" ]; then
    rm -rf "$data"
    initdb -D "$data" -U tacit_admin -E UTF8 --locale=C -A scram-sha-256 --pwfile="$files/superuser" --no-instructions
    postgres --single -D "$data" postgres <"$files/roles.sql" >/dev/null
    echo 'hostssl all all all scram-sha-256' >"$data/pg_hba.conf"
    touch "$data/complete"
fi
exec postgres -D "$data" -c listen_addresses="$ADDRESS" -c unix_socket_directories= -c max_connections=100 \
    -c shared_buffers=32MB -c password_encryption=scram-sha-256 \
    -c ssl=on -c ssl_cert_file="$files/tls/tls.pem" -c ssl_key_file="$files/tls/tls.key"
