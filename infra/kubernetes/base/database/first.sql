-- Run once, on an empty server: the service owns its database, so that a restore can empty it, and is not a superuser.
\set word `cat /etc/database/password`
CREATE ROLE tacit LOGIN PASSWORD :'word';
CREATE DATABASE tacit OWNER tacit;
REVOKE ALL ON DATABASE tacit FROM PUBLIC;
