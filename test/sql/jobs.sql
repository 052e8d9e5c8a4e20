-- Jobs belong to transactions: they come with COMMIT or not at all.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgobjstore;
RESET client_min_messages;
\set SHOW_CONTEXT never
-- What an earlier run left.
COPY (SELECT) TO PROGRAM 'rm -rf pgobjstore/jo';
CREATE TABLE jo_data (a int);
INSERT INTO jo_data VALUES (1), (2), (3);
CREATE VIEW jo_jobs AS SELECT kind, relation, path, state, rows FROM objstore_jobs WHERE relation ~ '^public\.jo_' ORDER BY job_id;

-- ROLLBACK
BEGIN;
SELECT objstore_push('jo_data', path => 'jo/rolled back/') IS NOT NULL AS enqueued;
SELECT * FROM jo_jobs;
ROLLBACK;
SELECT * FROM jo_jobs;

-- ROLLBACK TO SAVEPOINT: only what the savepoint covers is gone.
BEGIN;
SELECT objstore_push('jo_data', path => 'jo/kept/') AS kept \gset
SAVEPOINT a;
SELECT objstore_push('jo_data', path => 'jo/gone/') IS NOT NULL AS enqueued;
SAVEPOINT b;
SELECT objstore_push('jo_data', path => 'jo/gone too/') IS NOT NULL AS enqueued;
RELEASE SAVEPOINT b;
ROLLBACK TO SAVEPOINT a;
SAVEPOINT c;
SELECT objstore_push('jo_data', path => 'jo/kept too/') AS kept_too \gset
RELEASE SAVEPOINT c;
SELECT * FROM jo_jobs;
COMMIT;
SELECT state FROM objstore_wait(:kept);
SELECT state FROM objstore_wait(:kept_too);
SELECT * FROM jo_jobs;

-- An exception in PL/pgSQL is a savepoint too.
DO $$
BEGIN
	PERFORM objstore_push('jo_data', path => 'jo/exception/');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
SELECT count(*) FROM jo_jobs;

-- What the transaction did before COMMIT is in the push.
BEGIN;
INSERT INTO jo_data VALUES (4);
SELECT objstore_push('jo_data', path => 'jo/four/') AS job \gset
INSERT INTO jo_data VALUES (5);
-- Waiting in the transaction itself would have no end.
DO $$
DECLARE
	detail text;
	hint text;
BEGIN
	PERFORM objstore_wait(max(job_id)) FROM objstore_jobs;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RAISE NOTICE E'%\n%\n%', regexp_replace(sqlerrm, '\d+', 'N'), detail, hint;
END $$;
SELECT state FROM objstore_jobs WHERE job_id = :job;
COMMIT;
SELECT state, rows FROM objstore_wait(:job);

-- Cancelled by its own transaction before it is there for others.
BEGIN;
SELECT objstore_push('jo_data', path => 'jo/cancelled/') AS job \gset
SELECT objstore_cancel(:job);
COMMIT;
SELECT objstore_wait(:job);
SELECT state, sqlstate, attempts, started_at FROM objstore_jobs WHERE job_id = :job;
SELECT objstore_cancel(:job) AS again;

-- Two-phase commit
BEGIN;
SELECT objstore_push('jo_data', path => 'jo/prepared/') IS NOT NULL AS enqueued;
PREPARE TRANSACTION 'jo';
SELECT count(*) FROM jo_jobs;
BEGIN;
SAVEPOINT s;
SELECT objstore_push('jo_data', path => 'jo/prepared/') IS NOT NULL AS enqueued;
ROLLBACK TO s;
COMMIT;

-- Read-only transactions cannot enqueue.
\set VERBOSITY sqlstate
BEGIN READ ONLY;
SELECT objstore_push('jo_data', path => 'jo/read only/');
ROLLBACK;
\set VERBOSITY default

-- A job that fails raises its error where it is waited for, with the row the same.
SELECT objstore_push('jo_data', path => 'jo/kept/') AS job \gset
SELECT objstore_wait(:job);
SELECT state, sqlstate, message, detail, hint, rows, objects, percent, attempts FROM objstore_jobs WHERE job_id = :job \gx
\set VERBOSITY sqlstate
SELECT objstore_wait(:job);
\set VERBOSITY default
SELECT count(*) AS objects FROM objstore_objects WHERE job_id = :job;

-- Many in one transaction.
BEGIN;
SELECT count(objstore_push('jo_data', path => 'jo/many ' || i || '/')) FROM generate_series(1, 20) i;
COMMIT;
SELECT state, count(*) FROM (SELECT (objstore_wait(job_id)).state FROM objstore_jobs WHERE path ~ '^jo/many') w GROUP BY state;

-- A time that is up raises an error; the job goes on.
CREATE VIEW jo_slow AS SELECT pg_advisory_xact_lock(471147114711)::text;
SELECT pg_advisory_lock(471147114711);
SELECT objstore_push('jo_slow', path => 'jo/slow/') AS job \gset
\set VERBOSITY sqlstate
SELECT objstore_wait(:job, '10 ms');
SELECT objstore_wait(:job, '0');
SELECT objstore_wait(:job, '-1 day');
\set VERBOSITY default
DO $$
DECLARE
	detail text;
	hint text;
BEGIN
	LOOP
		EXIT WHEN state = 'running' FROM objstore_jobs WHERE path = 'jo/slow/';
		PERFORM pg_sleep(0.01);
	END LOOP;
	PERFORM objstore_wait(max(job_id), '10 ms') FROM objstore_jobs;
EXCEPTION WHEN query_canceled THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RAISE NOTICE E'%\n%\n%', regexp_replace(sqlerrm, '\d+', 'N'), detail, regexp_replace(hint, '\d+', 'N');
END $$;
SELECT kind, state, attempts, pid IS NOT NULL AS pid, percent FROM objstore_jobs WHERE job_id = :job;
SELECT backend_type ~ '^pgobjstore' AS worker, regexp_replace(query, '\d+', 'N') AS query, application_name
FROM pg_stat_activity WHERE pid = (SELECT pid FROM objstore_jobs WHERE job_id = :job);
-- A running job is cancelled where it stands.
SELECT objstore_push('jo_slow', path => 'jo/slow too/') AS job2 \gset
SELECT objstore_cancel(:job);
SELECT objstore_wait(:job);
SELECT state, sqlstate, message, rows FROM objstore_jobs WHERE job_id = :job;
SELECT pg_advisory_unlock(471147114711);
SELECT state, rows FROM objstore_wait(:job2, '1 minute');
SELECT objstore_pull('jo_slow_back', path => 'jo/slow/') AS job \gset
\set VERBOSITY sqlstate
SELECT objstore_wait(:job);
\set VERBOSITY default

SET client_min_messages = warning;
DROP VIEW jo_jobs, jo_slow;
DROP TABLE jo_data;
