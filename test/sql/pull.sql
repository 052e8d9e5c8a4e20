-- Modes of push and pull, and the layout of the store, on the file: store.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgobjstore;
RESET client_min_messages;
-- What an earlier run left.
COPY (SELECT) TO PROGRAM 'rm -rf pgobjstore/pu pgobjstore/contrib_regression';
CREATE TABLE pu_data (id int PRIMARY KEY, t text);
INSERT INTO pu_data SELECT i, 'row ' || i FROM generate_series(1, 4) i;

-- Runs a job that is given as a call, and shows how it ended.
CREATE PROCEDURE pu_run(call text) LANGUAGE plpgsql AS $$
DECLARE
	job bigint;
	r objstore_jobs;
BEGIN
	EXECUTE 'SELECT ' || call INTO job;
	COMMIT;
	LOOP
		SELECT * INTO r FROM objstore_jobs WHERE job_id = job;
		EXIT WHEN r.state IN ('done', 'failed', 'cancelled');
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
	IF r.state = 'done' THEN
		RAISE INFO '% % rows, % objects', r.kind, r.rows, r.objects;
	ELSE
		RAISE INFO '% %: %: %', r.kind, r.state, r.sqlstate, r.message;
		RAISE INFO 'hint: %', coalesce(r.hint, '');
	END IF;
END $$;
-- Files of the store below a folder, without what changes with the time.
CREATE FUNCTION pu_files(folder text) RETURNS SETOF text LANGUAGE sql AS $$
	WITH RECURSIVE tree(path, is_dir) AS (
		SELECT folder, true
		UNION ALL
		SELECT t.path || '/' || f, (pg_stat_file('pgobjstore/' || t.path || '/' || f)).isdir
		FROM tree t, pg_ls_dir('pgobjstore/' || t.path) f WHERE t.is_dir)
	SELECT regexp_replace(path, '\d{8}T\d{6}Z-\d+', 'TIME-JOB') FROM tree WHERE NOT is_dir ORDER BY 1
$$;

-- A folder of its own for every push.
CALL pu_run($$objstore_push('pu_data')$$);
CALL pu_run($$objstore_push('pu_data', format => 'text', compression => 'none')$$);
CALL pu_run($$objstore_push('pu_data', format => 'binary')$$);
SELECT * FROM pu_files('contrib_regression/public.pu_data');

-- Names that would be taken for something else.
CREATE SCHEMA "pu/+";
CREATE TABLE "pu/+"."a.b%c d" AS SELECT 1 AS a;
CALL pu_run($$objstore_push('"pu/+"."a.b%c d"')$$);
SELECT * FROM pu_files('contrib_regression/pu%2F+.a%2Eb%25c d');
DROP TABLE "pu/+"."a.b%c d";
CALL pu_run($$objstore_pull('"pu/+"."a.b%c d"')$$);
TABLE "pu/+"."a.b%c d";

-- A folder of the user's.
CALL pu_run($$objstore_push('pu_data', path => 'pu/mine/')$$);
CALL pu_run($$objstore_push('pu_data', path => 'pu/mine/')$$);
INSERT INTO pu_data VALUES (5, 'row 5');
CALL pu_run($$objstore_push('pu_data', path => 'pu/mine/', if_exists => 'replace')$$);
SELECT count(*) FROM pu_files('pu/mine');
CALL pu_run($$objstore_push('pu_data', path => 'pu/mine/', if_exists => 'replace', compression => 'none')$$);
SELECT regexp_replace(pu_files, '-\d+-1\.', '-JOB-1.') FROM pu_files('pu/mine');

-- One object.
CALL pu_run($$objstore_push('pu_data', path => 'pu/one.csv', compression => 'none')$$);
SELECT * FROM pu_files('pu') WHERE pu_files !~ 'mine';
SELECT pg_read_file('pgobjstore/pu/one.csv');
CALL pu_run($$objstore_push('pu_data', path => 'pu/one.csv', compression => 'none')$$);
DELETE FROM pu_data WHERE id > 2;
CALL pu_run($$objstore_push('pu_data', path => 'pu/one.csv', compression => 'none', if_exists => 'replace')$$);
SELECT pg_read_file('pgobjstore/pu/one.csv');
CALL pu_run($$objstore_push('pu_data', path => 'pu/odd.txt', format => 'csv', compression => 'none', columns => '{t}',
	options => '{"header": false, "delimiter": "|", "force_quote": ["t"]}')$$);
SELECT pg_read_file('pgobjstore/pu/odd.txt');
-- Whatever uses the same name as a folder is in the way.
CALL pu_run($$objstore_push('pu_data', path => 'pu/one.csv/')$$);

-- Pull: append, replace, create.
CALL pu_run($$objstore_pull('pu_new', path => 'pu/mine/', mode => 'create')$$);
SELECT count(*) FROM pu_new;
\d pu_new
CALL pu_run($$objstore_pull('pu_new', path => 'pu/mine/')$$);
SELECT count(*) FROM pu_new;
ALTER TABLE pu_new DROP CONSTRAINT pu_new_pkey;
CALL pu_run($$objstore_pull('pu_new', path => 'pu/mine/')$$);
SELECT count(*) FROM pu_new;
CALL pu_run($$objstore_pull('pu_new', path => 'pu/mine/', mode => 'replace')$$);
SELECT count(*) FROM pu_new;
SELECT objstore_pull('pu_new', path => 'pu/mine/', mode => 'create');
-- A replace that fails leaves the rows that were there.
ALTER TABLE pu_new ADD CHECK (id < 5) NOT VALID;
CALL pu_run($$objstore_pull('pu_new', path => 'pu/mine/', mode => 'replace')$$);
SELECT count(*) FROM pu_new;
-- Into a table with other columns.
CREATE TABLE pu_other (t varchar(6), x int DEFAULT 7, id bigint);
CALL pu_run($$objstore_pull('pu_other', path => 'pu/mine/')$$);
SELECT * FROM pu_other ORDER BY id LIMIT 2;
CREATE TABLE pu_narrow (id int);
CALL pu_run($$objstore_pull('pu_narrow', path => 'pu/mine/')$$);

-- Pull of one object: the table must be there, columns and options as given.
CALL pu_run($$objstore_pull('pu_none', path => 'pu/one.csv')$$);
CALL pu_run($$objstore_pull('pu_other', path => 'pu/one.csv', columns => '{id,t}', mode => 'replace')$$);
SELECT * FROM pu_other ORDER BY id;
CALL pu_run($$objstore_pull('pu_other', path => 'pu/odd.txt', format => 'csv', columns => '{t}', options => '{"header": false, "delimiter": "|"}')$$);
SELECT * FROM pu_other ORDER BY id, t;
CALL pu_run($$objstore_pull('pu_data', path => 'pu/one.csv', options => '{"header": "match"}', mode => 'replace')$$);
CALL pu_run($$objstore_pull('pu_other', path => 'pu/one.csv', options => '{"header": "match"}')$$);

-- Where there is nothing.
CALL pu_run($$objstore_pull('pu_data', path => 'pu/nothing/')$$);
CALL pu_run($$objstore_pull('pu_data', path => 'pu/nothing.csv')$$);
CALL pu_run($$objstore_pull('pu_never_pushed')$$);
CALL pu_run($$objstore_pull('pu_data', path => 'contrib_regression/public.pu_data/', mode => 'replace')$$);
-- What the manifest says cannot be said otherwise.
CALL pu_run($$objstore_pull('pu_data', path => 'pu/mine/', format => 'text')$$);
CALL pu_run($$objstore_pull('pu_data', path => 'pu/mine/', compression => 'zstd')$$);
CALL pu_run($$objstore_pull('pu_new', path => 'pu/mine/', format => 'csv', compression => 'none', mode => 'replace')$$);

-- Empty tables are valid in every format.
CREATE TABLE pu_empty (a int, b text);
DO $$
DECLARE
	f text;
BEGIN
	FOREACH f IN ARRAY '{csv,text,binary}'::text[] LOOP
		CALL pu_run(format($c$objstore_push('pu_empty', format => %L, path => %L)$c$, f, 'pu/empty ' || f || '/'));
		CALL pu_run(format($c$objstore_pull('pu_empty', path => %L)$c$, 'pu/empty ' || f || '/'));
	END LOOP;
END $$;

-- A trigger sees the rows; one that drops rows makes the count wrong.
CREATE FUNCTION pu_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.t := upper(NEW.t); IF NEW.id = TG_ARGV[0]::int THEN RETURN NULL; END IF; RETURN NEW; END $$;
TRUNCATE pu_other;
CREATE TRIGGER pu BEFORE INSERT ON pu_other FOR EACH ROW EXECUTE FUNCTION pu_trigger(0);
CALL pu_run($$objstore_pull('pu_other', path => 'pu/mine/')$$);
SELECT max(t) FROM pu_other;
DROP TRIGGER pu ON pu_other;
CREATE TRIGGER pu BEFORE INSERT ON pu_other FOR EACH ROW EXECUTE FUNCTION pu_trigger(1);
CALL pu_run($$objstore_pull('pu_other', path => 'pu/mine/')$$);
SELECT count(*) FROM pu_other;

SET client_min_messages = warning;
DROP SCHEMA "pu/+" CASCADE;
DROP TABLE pu_data, pu_new, pu_other, pu_narrow, pu_empty;
DROP FUNCTION pu_files, pu_trigger;
DROP PROCEDURE pu_run;
