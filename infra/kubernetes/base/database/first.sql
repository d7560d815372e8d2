-- Given once, to an empty server: the service owns its database and is no superuser, so that a restore can empty it.
\set word `cat /etc/database/password`
CREATE ROLE tacit LOGIN PASSWORD :'word';
CREATE DATABASE tacit OWNER tacit;
REVOKE ALL ON DATABASE tacit FROM PUBLIC;
