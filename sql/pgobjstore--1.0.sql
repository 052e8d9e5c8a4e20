\echo Use "CREATE EXTENSION pgobjstore" to load this file. \quit

---------------------------------------------------------------- stores

CREATE FUNCTION objstore_fdw_validator(options text[], catalog oid)
RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME';

CREATE FOREIGN DATA WRAPPER objstore VALIDATOR objstore_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER objstore IS 'object stores for pgobjstore: s3://, file://';

-- The embedded default: a directory inside the data directory.
CREATE SERVER objstore_local FOREIGN DATA WRAPPER objstore OPTIONS (url 'file:pgobjstore');
COMMENT ON SERVER objstore_local IS 'pgobjstore''s store in the data directory of this cluster';

---------------------------------------------------------------- jobs

CREATE SEQUENCE objstore_job_id_seq;

-- One row for each job: the queue and the history.  Written by the functions and workers only.
CREATE TABLE objstore_job (
	job_id       bigint PRIMARY KEY,
	kind         text NOT NULL,
	state        text NOT NULL DEFAULT 'queued'
	             CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
	relation     text NOT NULL,          -- qualified and quoted
	relid        oid NOT NULL DEFAULT 0, -- 0: the relation does not exist yet
	server       name NOT NULL,
	serverid     oid NOT NULL,
	path         text,                   -- key or folder in the store, behind the server's prefix
	owner        oid NOT NULL,
	enqueued_at  timestamptz NOT NULL,
	started_at   timestamptz,
	finished_at  timestamptz,
	attempts     int NOT NULL DEFAULT 0,
	spec         jsonb NOT NULL,         -- arguments of the call
	rows         bigint,
	raw_bytes    bigint,
	stored_bytes bigint,
	objects      int,
	parts        int,
	sqlstate     text,
	message      text,
	detail       text,
	hint         text,
	request_id   text,
	engine       text,                   -- direct or copy: how rows became bytes
	note         text,                   -- what the user should know about how it ran
	rejects      bigint                  -- rows that a pull left out
);
CREATE INDEX objstore_job_open ON objstore_job (owner, job_id) WHERE state IN ('queued', 'running');

CREATE TABLE objstore_object (
	job_id    bigint NOT NULL REFERENCES objstore_job ON DELETE CASCADE,
	number    int NOT NULL,
	url       text NOT NULL,
	bytes     bigint NOT NULL,
	rows      bigint,
	raw_bytes bigint,
	crc32c    text,
	etag      text,
	parts     int,
	PRIMARY KEY (job_id, number)
);

-- Which objects a relation has been loaded from (option skip_loaded).
CREATE INDEX objstore_object_url ON objstore_object USING hash (url);

-- Rows that pulls with on_error => 'skip' left out.
CREATE TABLE objstore_reject (
	job_id      bigint NOT NULL REFERENCES objstore_job ON DELETE CASCADE,
	number      bigint NOT NULL,
	url         text NOT NULL,
	line        bigint NOT NULL,         -- where the row ends in the object
	column_name text,
	sqlstate    text NOT NULL,
	message     text NOT NULL,
	detail      text,
	raw_line    text NOT NULL,           -- cut after 8 kB
	PRIMARY KEY (job_id, number)
);

REVOKE ALL ON objstore_job, objstore_object, objstore_reject, objstore_job_id_seq FROM PUBLIC;

-- What the workers of this database are doing now, for jobs that the caller may see.
CREATE FUNCTION objstore_progress(OUT job_id bigint, OUT pid int, OUT rows bigint, OUT raw_bytes bigint,
	OUT stored_bytes bigint, OUT parts int, OUT percent numeric)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION objstore_progress IS
	'counters of the jobs that run now; the view objstore_jobs shows them with the rest';

CREATE VIEW objstore_jobs WITH (security_barrier) AS
SELECT j.job_id, j.kind, j.state, j.relation, j.server, j.path,
       pg_catalog.pg_get_userbyid(j.owner) AS owner,
       j.enqueued_at, j.started_at, j.finished_at, j.attempts,
       coalesce(p.rows, j.rows) AS rows,
       coalesce(p.raw_bytes, j.raw_bytes) AS raw_bytes,
       coalesce(p.stored_bytes, j.stored_bytes) AS stored_bytes,
       j.objects,
       CASE WHEN j.state = 'done' THEN 100 ELSE p.percent END AS percent,
       (coalesce(p.raw_bytes, j.raw_bytes)
        / nullif(extract(epoch FROM coalesce(j.finished_at, clock_timestamp()) - j.started_at), 0))::bigint
           AS rate,
       CASE WHEN j.state = 'running' AND p.percent > 0
            THEN (clock_timestamp() - j.started_at) * (100 / p.percent - 1)::float8
       END AS eta,
       j.sqlstate, j.message, j.detail, j.hint, j.request_id,
       coalesce(p.parts, j.parts) AS parts,
       p.pid, j.engine, j.note, j.rejects
FROM objstore_job j
     LEFT JOIN objstore_progress() p ON p.job_id = j.job_id AND j.state = 'running'
WHERE pg_catalog.pg_has_role(j.owner, 'USAGE')
   OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE');
COMMENT ON VIEW objstore_jobs IS
	'jobs of pgobjstore; rate in raw bytes per second, percent and eta are estimates while running';

CREATE VIEW objstore_objects WITH (security_barrier) AS
SELECT o.job_id, o.url, o.bytes, o.rows, o.raw_bytes, o.crc32c, o.etag, o.parts
FROM objstore_object o JOIN objstore_job j ON j.job_id = o.job_id
WHERE pg_catalog.pg_has_role(j.owner, 'USAGE')
   OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE');
COMMENT ON VIEW objstore_objects IS 'objects that the jobs of pgobjstore wrote or read';

-- The lines are data of the table: for members of the job's role alone.
CREATE VIEW objstore_rejects WITH (security_barrier) AS
SELECT r.job_id, r.url AS object, r.line, r.column_name, r.sqlstate, r.message, r.detail, r.raw_line
FROM objstore_reject r JOIN objstore_job j ON j.job_id = r.job_id
WHERE pg_catalog.pg_has_role(j.owner, 'USAGE');
COMMENT ON VIEW objstore_rejects IS 'rows that pulls with on_error => ''skip'' left out, and why';

GRANT SELECT ON objstore_jobs, objstore_objects, objstore_rejects TO PUBLIC;

---------------------------------------------------------------- functions

CREATE FUNCTION objstore_push(relation regclass, server name = NULL, path text = NULL,
	format text = 'csv', compression text = 'zstd', columns name[] = NULL, parallel int = NULL,
	if_exists text = 'error', options jsonb = '{}')
RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_push IS 'export a relation to a store: enqueues a job, returns its id';

CREATE FUNCTION objstore_pull(relation text, server name = NULL, path text = NULL,
	mode text = 'append', columns name[] = NULL, format text = NULL, compression text = NULL,
	on_conflict text = 'error', on_error text = 'stop', parallel int = NULL, options jsonb = '{}')
RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_pull IS 'import a dataset or object into a table: enqueues a job, returns its id';

-- For the INSERT of a running pull alone.
CREATE FUNCTION objstore_source_rows(anyelement)
RETURNS SETOF anyelement LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_source_rows IS 'internal: rows of the object that a pull is loading';

CREATE FUNCTION objstore_wait(job bigint, timeout interval = NULL)
RETURNS objstore_jobs LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_wait IS 'wait for the end of a job; raises the error that it failed with';

CREATE FUNCTION objstore_cancel(job bigint)
RETURNS boolean LANGUAGE c STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_cancel IS 'cancel a queued or running job; false if it had ended already';

CREATE FUNCTION objstore_push_tables(relations regclass[] = NULL, server name = NULL,
	path text = NULL, schema name = NULL, pattern text = NULL, format text = 'csv',
	compression text = 'zstd', layout text = 'files', if_exists text = 'error', options jsonb = '{}')
RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_push_tables IS
	'export many relations under one snapshot: enqueues a job, returns its id';

CREATE FUNCTION objstore_pull_tables(path text = NULL, server name = NULL, tables text[] = NULL,
	mode text = 'create', parallel int = NULL, options jsonb = '{}')
RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION objstore_pull_tables IS
	'import a dataset of objstore_push_tables: enqueues a job, returns its id';
