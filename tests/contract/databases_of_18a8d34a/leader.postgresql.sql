CREATE FUNCTION public.store_reports(writers bigint, since double precision, closable bytea[], task_ids bytea[], report_ids bytea[], digests bytea[], bodies bytea[]) RETURNS boolean LANGUAGE plpgsql SET plan_cache_mode TO 'force_generic_plan' SET enable_seqscan TO 'off' SET enable_hashjoin TO 'off' SET enable_mergejoin TO 'off' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(writers);
    IF EXISTS (
            SELECT FROM (SELECT DISTINCT unnest(task_ids)) AS u (task_id)
            WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.task_id = u.task_id AND t.state = 'active')
        )
        OR EXISTS (SELECT FROM reports r WHERE r.report_id = ANY(report_ids))
        OR EXISTS (
            SELECT FROM unnest(task_ids, report_ids) AS u (task_id, report_id)
            JOIN outcomes o ON o.task_id = u.task_id AND o.report_id = u.report_id
        )
        OR EXISTS (SELECT FROM releases e WHERE e.task_id = ANY(closable))
    THEN
        RETURN false;
    END IF;
    WITH made AS (
        INSERT INTO reports (seq, task_id, report_id, digest, body)
        SELECT nextval('report_seqs'), * FROM unnest(task_ids, report_ids, digests, bodies)
        RETURNING reports.seq, reports.task_id
    )
    INSERT INTO pending (seq, task_id, since, size, members)
    SELECT min(made.seq), made.task_id, store_reports.since, count(*), string_agg(int8send(made.seq), ''::bytea)
    FROM made GROUP BY made.task_id;
    RETURN true;
END
$$;
CREATE TABLE public.aggregation_jobs (job_id bytea NOT NULL, task_id bytea NOT NULL, batch_id bytea, state text NOT NULL, members bytea NOT NULL, size integer NOT NULL, attempts integer NOT NULL, next_attempt double precision NOT NULL, holder bigint NOT NULL, lease_until double precision NOT NULL, expired integer NOT NULL, cause text NOT NULL, location text NOT NULL, digest bytea NOT NULL);
ALTER TABLE ONLY public.aggregation_jobs ALTER COLUMN members SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.aggregation_jobs ALTER COLUMN digest SET STORAGE EXTERNAL;
CREATE TABLE public.alembic_version (version_num character varying(32) NOT NULL);
CREATE TABLE public.batches (seq bigint NOT NULL, task_id bytea NOT NULL, batch_id bytea NOT NULL, state text NOT NULL);
CREATE SEQUENCE public.batches_seq_seq START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
ALTER SEQUENCE public.batches_seq_seq OWNED BY public.batches.seq;
CREATE TABLE public.buckets (task_id bytea NOT NULL, bucket bytea NOT NULL, shard bigint NOT NULL, count bigint NOT NULL, checksum bytea NOT NULL, first_time bigint NOT NULL, last_time bigint NOT NULL, agg_share bytea NOT NULL);
CREATE TABLE public.census_shares (task_id bytea NOT NULL, report_count bigint NOT NULL, agg_share bytea NOT NULL);
CREATE TABLE public.collection_jobs (job_id bytea NOT NULL, task_id bytea NOT NULL, state text NOT NULL, request bytea NOT NULL, batch_id bytea, share_request bytea NOT NULL, response bytea NOT NULL, problem text NOT NULL, attempts integer NOT NULL, next_attempt double precision NOT NULL);
CREATE TABLE public.forwarded (task_id bytea NOT NULL);
CREATE TABLE public.leaves ("position" bigint NOT NULL, leaf bytea NOT NULL);
CREATE TABLE public.log_state (id integer NOT NULL, state bytea NOT NULL);
CREATE SEQUENCE public.log_state_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
ALTER SEQUENCE public.log_state_id_seq OWNED BY public.log_state.id;
CREATE TABLE public.looks (task_id bytea NOT NULL, number integer NOT NULL, at bigint NOT NULL, tenths integer NOT NULL);
CREATE TABLE public.outcomes (task_id bytea NOT NULL, report_id bytea NOT NULL, nullifier bytea, code integer NOT NULL, cause text NOT NULL, bucket bytea, job_id bytea, digest bytea);
CREATE TABLE public.pending (seq bigint NOT NULL, task_id bytea NOT NULL, since double precision NOT NULL, size integer NOT NULL, members bytea NOT NULL);
ALTER TABLE ONLY public.pending ALTER COLUMN members SET STORAGE EXTERNAL;
CREATE TABLE public.rejections (task_id bytea NOT NULL, cause text NOT NULL, count bigint NOT NULL);
CREATE TABLE public.releases (task_id bytea NOT NULL, selector bytea NOT NULL);
CREATE SEQUENCE public.report_seqs START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
CREATE TABLE public.reports (seq bigint NOT NULL, task_id bytea NOT NULL, report_id bytea NOT NULL, digest bytea NOT NULL, body bytea NOT NULL) PARTITION BY RANGE (seq);
ALTER TABLE ONLY public.reports ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE public.reports_slice_0 (seq bigint NOT NULL, task_id bytea NOT NULL, report_id bytea NOT NULL, digest bytea NOT NULL, body bytea NOT NULL) WITH (toast_tuple_target='8160', autovacuum_enabled='false');
ALTER TABLE ONLY public.reports_slice_0 ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE public.reports_slice_1 (seq bigint NOT NULL, task_id bytea NOT NULL, report_id bytea NOT NULL, digest bytea NOT NULL, body bytea NOT NULL) WITH (toast_tuple_target='8160', autovacuum_enabled='false');
ALTER TABLE ONLY public.reports_slice_1 ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE public.tacit_database (one boolean DEFAULT true NOT NULL, service text NOT NULL, holder text NOT NULL, CONSTRAINT tacit_database_one_check CHECK (one));
CREATE TABLE public.tacit_marks (shard integer NOT NULL, number bigint NOT NULL);
CREATE TABLE public.tacit_probe (place integer NOT NULL, bytes bytea NOT NULL);
CREATE TABLE public.tasks (recipe_hash bytea NOT NULL, task_id bytea, state text NOT NULL, rule text NOT NULL, detail text NOT NULL, recipe bytea NOT NULL, token_key_spki bytea NOT NULL, opt_in bytea NOT NULL, void bytea DEFAULT '\x'::bytea NOT NULL);
ALTER TABLE ONLY public.reports ATTACH PARTITION public.reports_slice_0 FOR VALUES FROM ('0') TO ('65536');
ALTER TABLE ONLY public.reports ATTACH PARTITION public.reports_slice_1 FOR VALUES FROM ('65536') TO ('131072');
ALTER TABLE ONLY public.batches ALTER COLUMN seq SET DEFAULT nextval('public.batches_seq_seq'::regclass);
ALTER TABLE ONLY public.log_state ALTER COLUMN id SET DEFAULT nextval('public.log_state_id_seq'::regclass);
INSERT INTO public.aggregation_jobs VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'it''s', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1, 1, 1.5, 1, 1.5, 1, 'it''s', 'it''s', '\x630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd');
INSERT INTO public.alembic_version VALUES ('0007');
INSERT INTO public.batches VALUES (1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'it''s');
INSERT INTO public.buckets VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1, 1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1, 1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.census_shares VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.collection_jobs VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'it''s', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'it''s', 1, 1.5);
INSERT INTO public.forwarded VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.leaves VALUES (1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.log_state VALUES (1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.looks VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1, 1, 1);
INSERT INTO public.outcomes VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1, 'it''s', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.pending VALUES (1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 1.5, 1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.rejections VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'it''s', 1);
INSERT INTO public.releases VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.reports_slice_0 VALUES (1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
INSERT INTO public.tacit_database VALUES (true, 'services.leader.migrations', 'c71eb8c554174dda8d64455c12e952fd');
INSERT INTO public.tasks VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'it''s', 'it''s', 'it''s', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
SELECT pg_catalog.setval('public.batches_seq_seq', 1, false);
SELECT pg_catalog.setval('public.log_state_id_seq', 1, false);
SELECT pg_catalog.setval('public.report_seqs', 1, false);
ALTER TABLE ONLY public.aggregation_jobs ADD CONSTRAINT aggregation_jobs_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY public.alembic_version ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.batches ADD CONSTRAINT batches_batch_id_key UNIQUE (batch_id);
ALTER TABLE ONLY public.batches ADD CONSTRAINT batches_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.buckets ADD CONSTRAINT buckets_pkey PRIMARY KEY (task_id, bucket, shard);
ALTER TABLE ONLY public.census_shares ADD CONSTRAINT census_shares_pkey PRIMARY KEY (task_id);
ALTER TABLE ONLY public.collection_jobs ADD CONSTRAINT collection_jobs_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY public.forwarded ADD CONSTRAINT forwarded_pkey PRIMARY KEY (task_id);
ALTER TABLE ONLY public.leaves ADD CONSTRAINT leaves_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY public.log_state ADD CONSTRAINT log_state_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.looks ADD CONSTRAINT looks_pkey PRIMARY KEY (task_id, number);
ALTER TABLE ONLY public.outcomes ADD CONSTRAINT one_report_per_nullifier UNIQUE (nullifier);
ALTER TABLE ONLY public.outcomes ADD CONSTRAINT outcomes_pkey PRIMARY KEY (task_id, report_id);
ALTER TABLE ONLY public.pending ADD CONSTRAINT pending_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.rejections ADD CONSTRAINT rejections_pkey PRIMARY KEY (task_id, cause);
ALTER TABLE ONLY public.releases ADD CONSTRAINT releases_pkey PRIMARY KEY (task_id, selector);
ALTER TABLE ONLY public.reports ADD CONSTRAINT reports_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.reports_slice_0 ADD CONSTRAINT reports_slice_0_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.reports_slice_1 ADD CONSTRAINT reports_slice_1_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.tacit_database ADD CONSTRAINT tacit_database_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.tacit_marks ADD CONSTRAINT tacit_marks_pkey PRIMARY KEY (shard);
ALTER TABLE ONLY public.tacit_probe ADD CONSTRAINT tacit_probe_pkey PRIMARY KEY (place);
ALTER TABLE ONLY public.tasks ADD CONSTRAINT tasks_pkey PRIMARY KEY (recipe_hash);
ALTER TABLE ONLY public.tasks ADD CONSTRAINT tasks_task_id_key UNIQUE (task_id);
CREATE INDEX batches_by_task ON public.batches USING btree (task_id, state);
CREATE INDEX collections_by_task ON public.collection_jobs USING btree (task_id, state);
CREATE INDEX jobs_by_state ON public.aggregation_jobs USING btree (state, next_attempt);
CREATE INDEX jobs_by_task ON public.aggregation_jobs USING btree (task_id, state);
CREATE INDEX outcomes_by_bucket ON public.outcomes USING btree (task_id, bucket);
CREATE INDEX pending_by_task ON public.pending USING btree (task_id, seq);
CREATE INDEX reports_by_id ON ONLY public.reports USING btree (report_id);
CREATE INDEX reports_slice_0_report_id_idx ON public.reports_slice_0 USING btree (report_id);
CREATE INDEX reports_slice_1_report_id_idx ON public.reports_slice_1 USING btree (report_id);
ALTER INDEX public.reports_pkey ATTACH PARTITION public.reports_slice_0_pkey;
ALTER INDEX public.reports_by_id ATTACH PARTITION public.reports_slice_0_report_id_idx;
ALTER INDEX public.reports_pkey ATTACH PARTITION public.reports_slice_1_pkey;
ALTER INDEX public.reports_by_id ATTACH PARTITION public.reports_slice_1_report_id_idx;
