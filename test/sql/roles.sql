-- Who may do what: a job runs with the rights of the role that asked, and is seen by those who have its rights.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgobjstore;
RESET client_min_messages;
\set SHOW_CONTEXT never
-- What an earlier run left.
COPY (SELECT) TO PROGRAM 'rm -rf pgobjstore/ro';
CREATE ROLE regress_objstore_ann LOGIN;
CREATE ROLE regress_objstore_bob LOGIN;
CREATE ROLE regress_objstore_group NOLOGIN;
CREATE ROLE regress_objstore_auditor LOGIN IN ROLE pg_read_all_stats;
CREATE ROLE regress_objstore_operator LOGIN IN ROLE pg_signal_backend;
CREATE TABLE ro_data (id int, secret text, owner text);
INSERT INTO ro_data VALUES (1, 's1', 'regress_objstore_ann'), (2, 's2', 'regress_objstore_bob'), (3, 's3', 'regress_objstore_ann');

-- Waits for the end of a job and shows it, whoever owns it.
CREATE PROCEDURE ro_end(job bigint) LANGUAGE plpgsql AS $$
DECLARE
	r objstore_jobs;
BEGIN
	LOOP
		SELECT * INTO r FROM objstore_jobs WHERE job_id = job;
		EXIT WHEN r.state IN ('done', 'failed', 'cancelled');
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
	RAISE INFO '% as %: %', r.kind, r.owner, coalesce(r.state || ', ' || r.rows || ' rows', r.state || ': ' || r.sqlstate || ': ' || r.message);
END $$;

-- Waits until it runs.
CREATE PROCEDURE ro_begun(job bigint) LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		EXIT WHEN EXISTS (SELECT FROM objstore_jobs WHERE job_id = job AND pid IS NOT NULL);
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;

-- USAGE on the server
CREATE SCHEMA ro_ann AUTHORIZATION regress_objstore_ann;
SET ROLE regress_objstore_ann;
CREATE TABLE ro_ann.own AS SELECT 1 AS a;
SELECT objstore_push('ro_ann.own', path => 'ro/own/');
SELECT objstore_pull('ro_ann.own', path => 'ro/own/');
DROP TABLE ro_ann.own;
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER objstore_local TO regress_objstore_ann, regress_objstore_bob, regress_objstore_group;
-- SELECT on the table
SET ROLE regress_objstore_ann;
SELECT objstore_push('ro_data', path => 'ro/a/');
SELECT objstore_pull('ro_data', path => 'ro/a/');
RESET ROLE;
GRANT SELECT (id, owner) ON ro_data TO regress_objstore_ann;
SET ROLE regress_objstore_ann;
SELECT objstore_push('ro_data', path => 'ro/a/');
SELECT objstore_push('ro_data', path => 'ro/a/', columns => '{id,secret}');
SELECT objstore_push('ro_data', path => 'ro/a/', columns => '{owner,id}') AS job \gset
CALL ro_end(:job);
RESET ROLE;
-- INSERT, and DELETE for replace
GRANT INSERT (id, owner) ON ro_data TO regress_objstore_ann;
SET ROLE regress_objstore_ann;
SELECT objstore_pull('ro_data', path => 'ro/a/') AS job \gset
CALL ro_end(:job);
SELECT objstore_pull('ro_data', path => 'ro/a/', mode => 'replace');
RESET ROLE;
SELECT id, secret, owner FROM ro_data ORDER BY 1, 2;
GRANT DELETE ON ro_data TO regress_objstore_ann;
SET ROLE regress_objstore_ann;
SELECT objstore_pull('ro_data', path => 'ro/a/', mode => 'replace') AS job \gset
CALL ro_end(:job);
RESET ROLE;
SELECT id, secret, owner FROM ro_data ORDER BY 1, 2;
UPDATE ro_data SET secret = 's' || id;
-- INSERT on some columns is not enough for others
GRANT SELECT ON ro_data TO regress_objstore_bob;
SET ROLE regress_objstore_bob;
SELECT objstore_push('ro_data', path => 'ro/b/') AS job \gset
CALL ro_end(:job);
RESET ROLE;
SET ROLE regress_objstore_ann;
SELECT objstore_pull('ro_data', path => 'ro/b/') AS job \gset
CALL ro_end(:job);
-- CREATE in the schema
SELECT objstore_pull('ro_new', path => 'ro/b/');
SELECT objstore_pull('ro_ann.new', path => 'ro/b/') AS job \gset
CALL ro_end(:job);
RESET ROLE;
SELECT relname, relowner::regrole FROM pg_class WHERE relnamespace = 'ro_ann'::regnamespace AND relkind = 'r';

-- A view is read with the rights of its owner, its functions run as the role that asked.
CREATE VIEW ro_view AS SELECT id, secret, current_user::text AS seen_by FROM ro_data;
GRANT SELECT ON ro_view TO regress_objstore_ann;
SET ROLE regress_objstore_ann;
SELECT objstore_push('ro_view', path => 'ro/view/') AS job \gset
CALL ro_end(:job);
SELECT objstore_pull('ro_ann.view', path => 'ro/view/') AS job \gset
CALL ro_end(:job);
SELECT * FROM ro_ann.view ORDER BY id;
RESET ROLE;

-- Row-level security
ALTER TABLE ro_data ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ro_data USING (owner = current_user);
GRANT SELECT, INSERT ON ro_data TO regress_objstore_ann;
SET ROLE regress_objstore_ann;
SELECT objstore_push('ro_data', path => 'ro/rls/') AS job \gset
CALL ro_end(:job);
SELECT objstore_pull('ro_ann.rls', path => 'ro/rls/') AS job \gset
CALL ro_end(:job);
SELECT * FROM ro_ann.rls ORDER BY id;
SELECT objstore_pull('ro_data', path => 'ro/rls/') AS job \gset
CALL ro_end(:job);
RESET ROLE;
SELECT count(*) FROM ro_data;
SELECT objstore_push('ro_data', path => 'ro/all/') AS job \gset
SELECT rows FROM objstore_wait(:job);
ALTER TABLE ro_data DISABLE ROW LEVEL SECURITY;

-- Rights that are taken away before the job begins count.  (Its transaction takes them.)
BEGIN;
SET LOCAL ROLE regress_objstore_ann;
SELECT objstore_push('ro_data', path => 'ro/revoked/') AS job \gset
RESET ROLE;
REVOKE ALL ON ro_data FROM regress_objstore_ann;
COMMIT;
SET ROLE regress_objstore_ann;
CALL ro_end(:job);
RESET ROLE;

-- A security definer function is its owner.
CREATE FUNCTION ro_definer() RETURNS bigint SECURITY DEFINER LANGUAGE sql AS $$ SELECT objstore_push('ro_data', path => 'ro/definer/') $$;
ALTER FUNCTION ro_definer OWNER TO regress_objstore_bob;
SET ROLE regress_objstore_ann;
SELECT ro_definer() AS job \gset
SELECT count(*) AS seen FROM objstore_jobs WHERE job_id = :job;
RESET ROLE;
CALL ro_end(:job);

-- Own jobs are seen, others not.
CREATE VIEW ro_slow AS SELECT pg_advisory_xact_lock(47114711)::text;
GRANT SELECT ON ro_slow TO regress_objstore_ann;
SELECT pg_advisory_lock(47114711);
SET ROLE regress_objstore_ann;
SELECT objstore_push('ro_slow', path => 'ro/slow/') AS job \gset
CALL ro_begun(:job);
SELECT owner, count(*) FROM objstore_jobs GROUP BY owner;
SELECT count(*) FROM objstore_objects o WHERE NOT EXISTS (SELECT FROM objstore_jobs j WHERE j.job_id = o.job_id);
SELECT * FROM objstore_job;
SELECT * FROM objstore_object;
SELECT nextval('objstore_job_id_seq');
SET ROLE regress_objstore_bob;
SELECT count(*) FROM objstore_jobs WHERE owner <> 'regress_objstore_bob';
SELECT count(*) FROM objstore_progress();
\set VERBOSITY sqlstate
SELECT objstore_cancel(:job);
SELECT objstore_wait(:job);
\set VERBOSITY default
SET ROLE regress_objstore_auditor;
SELECT count(DISTINCT owner) > 2 AS all FROM objstore_jobs;
\set VERBOSITY sqlstate
SELECT objstore_cancel(:job);
\set VERBOSITY default
RESET ROLE;
GRANT regress_objstore_ann TO regress_objstore_group;
SET ROLE regress_objstore_group;
SELECT count(*) > 0 AS members_see FROM objstore_jobs WHERE owner = 'regress_objstore_ann';
SELECT objstore_cancel(:job) AS members_cancel;
SET ROLE regress_objstore_ann;
CALL ro_end(:job);
RESET ROLE;
-- pg_signal_backend may cancel what it sees, but not a superuser's.
GRANT pg_read_all_stats TO regress_objstore_operator;
SET ROLE regress_objstore_ann;
SELECT objstore_push('ro_slow', path => 'ro/slow 2/') AS job \gset
CALL ro_begun(:job);
SET ROLE regress_objstore_operator;
SELECT objstore_cancel(:job);
SET ROLE regress_objstore_ann;
CALL ro_end(:job);
RESET ROLE;
SELECT objstore_push('ro_slow', path => 'ro/slow 3/') AS job \gset
SET ROLE regress_objstore_operator;
SELECT objstore_cancel(:job);
RESET ROLE;
SELECT pg_advisory_unlock(47114711);
SELECT state, rows FROM objstore_wait(:job);

SET client_min_messages = warning;
DROP VIEW ro_view, ro_slow;
DROP FUNCTION ro_definer;
DROP PROCEDURE ro_end, ro_begun;
DROP TABLE ro_data;
DROP SCHEMA ro_ann CASCADE;
DROP OWNED BY regress_objstore_ann, regress_objstore_bob, regress_objstore_group, regress_objstore_auditor, regress_objstore_operator;
DROP ROLE regress_objstore_ann, regress_objstore_bob, regress_objstore_group, regress_objstore_auditor, regress_objstore_operator;
