BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE seen_requests (enc BLOB NOT NULL, date INTEGER NOT NULL, PRIMARY KEY (enc));
INSERT INTO "seen_requests" VALUES(X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F',1);
CREATE TABLE tacit_marks (shard integer PRIMARY KEY, number bigint NOT NULL);
CREATE TABLE tacit_probe (place INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE INDEX seen_requests_by_date ON seen_requests (date);
COMMIT;
