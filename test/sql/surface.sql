-- What the extension makes: functions, views, settings, rights.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgobjstore;
RESET client_min_messages;

-- Signatures.  Arguments may be added at the ends.
SELECT proname, unnest(string_to_array(pg_get_function_arguments(oid), ', ')) AS argument
FROM pg_proc WHERE proname IN ('objstore_push', 'objstore_pull', 'objstore_wait', 'objstore_cancel') ORDER BY proname;
SELECT proname, pg_get_function_result(oid) AS result
FROM pg_proc WHERE proname IN ('objstore_push', 'objstore_pull', 'objstore_wait', 'objstore_cancel') ORDER BY proname;

SELECT attrelid::regclass AS view, attnum AS n, attname, atttypid::regtype AS type
FROM pg_attribute WHERE attrelid IN ('objstore_jobs'::regclass, 'objstore_objects'::regclass) AND attnum > 0
ORDER BY attrelid::regclass::text, attnum;

-- All names begin with objstore_, and everything that users meet has a comment.
SELECT pg_describe_object(classid, objid, 0)
FROM pg_depend JOIN pg_extension e ON refobjid = e.oid AND refclassid = 'pg_extension'::regclass
WHERE extname = 'pgobjstore' AND deptype = 'e' AND pg_describe_object(classid, objid, 0) !~ '\mobjstore';
SELECT proname FROM pg_proc WHERE proname ~ '^objstore_' AND proname NOT IN ('objstore_fdw_validator')
	AND obj_description(oid, 'pg_proc') IS NULL;
SELECT relname FROM pg_class WHERE relname ~ '^objstore' AND relkind = 'v' AND obj_description(oid, 'pg_class') IS NULL;

-- Everybody may call the functions and read the views, nobody the tables.
SELECT count(*) AS not_public FROM pg_proc WHERE proname ~ '^objstore_' AND NOT has_function_privilege('public', oid, 'EXECUTE');
SELECT relname, relkind, has_table_privilege('public', oid, 'SELECT') AS read,
	has_table_privilege('public', oid, 'INSERT, UPDATE, DELETE, TRUNCATE') AS write
FROM pg_class WHERE relname ~ '^objstore' AND relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace
	AND relname IN ('objstore_jobs', 'objstore_objects', 'objstore_job', 'objstore_object') ORDER BY relname;
SELECT has_sequence_privilege('public', 'objstore_job_id_seq', 'USAGE, SELECT, UPDATE') AS sequence_is_public;

-- The store that is there from the beginning.
SELECT srvname, fdwname, srvoptions, has_server_privilege('public', srvname, 'USAGE') AS public
FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw WHERE fdwname = 'objstore';
SHOW pgobjstore.default_server;

-- Settings with units.
SELECT name, boot_val, unit, min_val, max_val, context FROM pg_settings
WHERE name IN ('pgobjstore.default_server', 'pgobjstore.max_workers', 'pgobjstore.queue_size', 'pgobjstore.idle_timeout', 'pgobjstore.max_attempts',
	'pgobjstore.part_size', 'pgobjstore.concurrency', 'pgobjstore.frame_size', 'pgobjstore.compression_level', 'pgobjstore.connect_timeout',
	'pgobjstore.request_timeout', 'pgobjstore.max_retries', 'pgobjstore.retry_timeout') ORDER BY name;
SELECT name FROM pg_settings WHERE name ~ '^pgobjstore\.' AND short_desc = '';
\set VERBOSITY sqlstate
SET pgobjstore.part_size = '1MB';
SET pgobjstore.part_size = '2GB';
\set VERBOSITY default
SET pgobjstore.max_workers = 7;
SET pgobjstore.queue_size = 7;
SET pgobjstore.partsize = '8MB';

-- First contact: a table goes and comes back.
-- What an earlier run left.
COPY (SELECT) TO PROGRAM 'rm -rf pgobjstore/contrib_regression';
CREATE TABLE first (id int PRIMARY KEY, name text NOT NULL, price numeric(8,2) DEFAULT 1.5);
INSERT INTO first SELECT i, 'name ' || i, i / 3.0 FROM generate_series(1, 1000) i;
SELECT objstore_push('first') AS job \gset
SELECT kind, state, relation, server, regexp_replace(path, '/\d{8}T\d{6}Z-\d+/$', '/TIME-JOB/') AS path, owner = current_user AS mine,
	enqueued_at <= started_at AND started_at <= finished_at AS times, attempts, rows, objects, percent,
	raw_bytes > stored_bytes AS smaller, sqlstate, message, detail, hint, request_id
FROM objstore_wait(:job) \gx
SELECT regexp_replace(url, '^file:.*/(?=contrib_regression/)', 'file:…/') ~ '^file:…/contrib_regression/public\.first/\d{8}T\d{6}Z-\d+/part-00000\.csv\.zst$' AS url,
	bytes > 0 AS bytes, rows, raw_bytes > bytes AS raw, crc32c ~ '^[0-9a-f]{8}$' AS crc, parts
FROM objstore_objects WHERE job_id = :job;
DROP TABLE first;
SELECT objstore_pull('first') AS job \gset
SELECT kind, state, relation, rows, objects FROM objstore_wait(:job);
\d first
SELECT count(*), sum(id), sum(price), max(name) FROM first;

-- In another schema, with a name that must be quoted.
DROP EXTENSION pgobjstore;
CREATE SCHEMA "My ""Jobs""";
CREATE EXTENSION pgobjstore SCHEMA "My ""Jobs""";
ALTER TABLE first RENAME TO second;
SELECT "My ""Jobs""".objstore_push('second') AS job \gset
SELECT state, rows FROM "My ""Jobs""".objstore_wait(:job);
SET search_path = "My ""Jobs""", public;
SELECT objstore_pull('second', mode => 'replace') AS job \gset
SELECT state, rows FROM objstore_wait(:job);
SELECT kind, state, relation FROM objstore_jobs ORDER BY job_id;
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA "My ""Jobs""" CASCADE;
DROP TABLE second;
CREATE EXTENSION pgobjstore;
