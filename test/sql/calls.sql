-- What a call finds wrong at once: arguments, options, relations.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgobjstore;
RESET client_min_messages;
CREATE TABLE ca_data (a int, b text);

-- Nulls.
SELECT objstore_push(NULL);
SELECT objstore_push('ca_data', format => NULL);
SELECT objstore_push('ca_data', compression => NULL);
SELECT objstore_push('ca_data', if_exists => NULL);
SELECT objstore_push('ca_data', columns => '{a,NULL}');
SELECT objstore_push('ca_data', columns => '{}');
SELECT objstore_pull(NULL);
SELECT objstore_pull('ca_data', mode => NULL);
SELECT objstore_wait(NULL);
SELECT objstore_cancel(NULL);

-- Words.
SELECT objstore_push('ca_data', format => 'xlsx');
SELECT objstore_push('ca_data', format => 'CSV');
SELECT objstore_push('ca_data', compression => 'zst');
SELECT objstore_push('ca_data', if_exists => 'overwrite');
SELECT objstore_push('ca_data', if_exists => 'replac');
SELECT objstore_pull('ca_data', mode => 'apend');
SELECT objstore_pull('ca_data', format => 'jsn');
SELECT objstore_pull('ca_data', compression => 'brotli');

-- Options.
SELECT objstore_push('ca_data', options => '{"delimeter": ";"}');
SELECT objstore_push('ca_data', options => '{"Header": true}');
SELECT objstore_push('ca_data', options => '{"x": 1}');
SELECT objstore_push('ca_data', options => '{"force_null": ["a"]}');
SELECT objstore_push('ca_data', options => '[]');
SELECT objstore_push('ca_data', options => '"header"');
SELECT objstore_push('ca_data', options => '{"level": 100}');
SELECT objstore_push('ca_data', options => '{"level": "high"}');
SELECT objstore_push('ca_data', options => '{"level": true}');
SELECT objstore_push('ca_data', options => '{"part_size": "1MB"}');
SELECT objstore_push('ca_data', options => '{"part_size": "6GB"}');
SELECT objstore_push('ca_data', options => '{"part_size": "lots"}');
SELECT objstore_push('ca_data', options => '{"concurrency": 0}');
SELECT objstore_push('ca_data', options => '{"frame_size": "1kB"}');
SELECT objstore_push('ca_data', options => '{"delimiter": ";;"}');
SELECT objstore_push('ca_data', options => '{"delimiter": {"a": 1}}');
SELECT objstore_push('ca_data', options => '{"encoding": "klingon"}');
-- Those of a pull, without "default", which is there since 16.
CREATE PROCEDURE ca_pull(options jsonb) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	PERFORM objstore_pull('ca_data', options => options);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RAISE INFO '%: %', sqlstate, sqlerrm;
	RAISE INFO 'detail: %', replace(detail, ' default,', '');
	RAISE INFO 'hint: %', hint;
END $$;
CALL ca_pull('{"level": 3}');
CALL ca_pull('{"force_quote": "*"}');
CALL ca_pull('{"hedaer": false}');

-- What COPY itself refuses, in words of its own.
CREATE FUNCTION ca_fails(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT ' || call;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	RETURN 'refused';
END $$;
SELECT ca_fails($$objstore_push('ca_data', format => 'binary', options => '{"delimiter": ";"}')$$);
SELECT ca_fails($$objstore_push('ca_data', format => 'binary', options => '{"header": true}')$$);
SELECT ca_fails($$objstore_push('ca_data', format => 'text', options => '{"quote": "x"}')$$);
SELECT ca_fails($$objstore_push('ca_data', options => '{"delimiter": "\n"}')$$);
SELECT ca_fails($$objstore_push('ca_data', options => '{"null": "\n"}')$$);
SELECT ca_fails($$objstore_push('ca_data', options => '{"quote": ","}')$$);
SELECT ca_fails($$objstore_pull('ca_data', format => 'binary', options => '{"null": "x"}')$$);

-- Paths.
SELECT objstore_push('ca_data', path => '');
SELECT objstore_push('ca_data', path => '/etc/passwd');
SELECT objstore_push('ca_data', path => '../up/');
SELECT objstore_push('ca_data', path => 'a/../../b/');
SELECT objstore_push('ca_data', path => './a/');
SELECT objstore_push('ca_data', path => 'a//b/');
SELECT objstore_push('ca_data', path => '/');
SELECT objstore_push('ca_data', path => E'a\nb/');
SELECT objstore_push('ca_data', path => 'a/manifest.json');
DO $$
BEGIN
	PERFORM objstore_push('ca_data', path => repeat('x', 1025));
EXCEPTION WHEN invalid_parameter_value THEN
	RAISE NOTICE 'too long: %', left(sqlerrm, 50);
END $$;
SELECT objstore_pull('ca_data', path => '../up/');

-- Relations and columns.
SELECT objstore_push('no_such_table');
SELECT objstore_push(4294967295::oid::regclass);
CREATE SEQUENCE ca_seq;
CREATE INDEX ca_index ON ca_data (a);
CREATE TYPE ca_type AS (a int);
SELECT objstore_push('ca_seq');
SELECT objstore_push('ca_index');
SELECT objstore_push('ca_type');
CREATE TEMPORARY TABLE ca_temp (a int);
SELECT objstore_push('ca_temp');
SELECT objstore_pull('ca_temp');
SELECT objstore_push('ca_data', columns => '{a,c}');
SELECT objstore_push('ca_data', columns => '{ctid}');
SELECT objstore_pull('no_such_schema.t');
SELECT objstore_pull('other_database.public.t');
SELECT objstore_pull('a.b.c.d');
SELECT objstore_pull('');
SELECT objstore_pull('ca_data', mode => 'create');

-- Jobs that are not there.
SELECT objstore_wait(-1);
SELECT objstore_cancel(9223372036854775807);

-- Nothing of all that has left a job.
SELECT count(*) FROM objstore_jobs WHERE relation ~ 'ca_';

DROP TABLE ca_data, ca_temp;
DROP FUNCTION ca_fails;
DROP PROCEDURE ca_pull;
DROP SEQUENCE ca_seq;
DROP TYPE ca_type;
