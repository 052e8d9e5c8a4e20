-- Options of servers and user mappings: what is accepted, and what the errors say.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgobjstore;
RESET client_min_messages;

-- Everything that there is.
CREATE SERVER st_all FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://my-bucket/some/prefix', region 'eu-central-1', endpoint 'https://s3.example.com:9000',
	url_style 'virtual', ca_file '/etc/ssl/certs/ca-certificates.crt', part_size '16MB', concurrency '4', connect_timeout '5s', request_timeout '30s');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_all OPTIONS (access_key_id 'AKIDEXAMPLE', secret_access_key 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY', session_token 'token==');
ALTER SERVER st_all OPTIONS (SET url_style 'path', DROP ca_file, SET endpoint 'http://127.0.0.1:1');
ALTER SERVER st_all OPTIONS (SET url_style 'auto');
CREATE SERVER st_plain FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://my-bucket');
CREATE SERVER st_file FOREIGN DATA WRAPPER objstore OPTIONS (url 'file:///var/tmp/somewhere', part_size '64kB');
SELECT srvname, srvoptions FROM pg_foreign_server WHERE srvname ~ '^st_' ORDER BY 1;

-- Unknown options: the valid ones, and the nearest.
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bkt', regoin 'eu-west-1');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bkt', partsize '8MB');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bkt', something_else 'x');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (URL 's3://bkt', "Region" 'x');
ALTER SERVER st_all OPTIONS (ADD end_point 'x');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (acces_key_id 'x');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS ("user" 'x');

-- Options in the wrong catalog.
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bkt', access_key_id 'x');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bkt', secret_access_key 'very-secret');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (region 'x');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (url 's3://bkt');
CREATE FOREIGN TABLE st_table (a int) SERVER st_plain OPTIONS (region 'x');
ALTER FOREIGN DATA WRAPPER objstore OPTIONS (ADD region 'x');

-- URLs.
CREATE SERVER st FOREIGN DATA WRAPPER objstore;
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (region 'x');
ALTER SERVER st_plain OPTIONS (DROP url);
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url '');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'bucket/prefix');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3:///prefix');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://b@d/prefix');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket/a/../b');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'https://bucket.s3.amazonaws.com/');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'gs://bucket/prefix');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'file://host/dir');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'ftp://host/dir');

-- Values.
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', region 'Frankfurt (main)');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', endpoint 's3.example.com');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', endpoint 'ftp://s3.example.com');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', endpoint 'https://s3.example.com/path');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', endpoint 'https://s3.example.com:99999');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', url_style 'vhost');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', ca_file 'ca.pem');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', part_size '1MB');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', part_size '6GB');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', part_size 'many');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', concurrency '0');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', concurrency '65');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', connect_timeout '1');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket', request_timeout '2 days');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'file:///tmp', region 'eu-west-1');

-- Values of a user mapping are not shown, whatever is wrong with them.
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (access_key_id '');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (access_key_id 'a', secret_access_key 'very secret');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (access_key_id 'a', secret_access_key E'very-secret\n');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (access_key_id 'a', secret_access_key 'b', session_token 'sécret');

-- A call finds at once what is missing.
CREATE TABLE st_data (a int);
CREATE ROLE regress_objstore_stores LOGIN;
ALTER TABLE st_data OWNER TO regress_objstore_stores;
GRANT USAGE ON FOREIGN SERVER st_plain, objstore_local TO regress_objstore_stores;
SELECT objstore_push('st_data', server => 'no_such_server');
CREATE FOREIGN DATA WRAPPER st_other;
CREATE SERVER st_other FOREIGN DATA WRAPPER st_other;
SELECT objstore_push('st_data', server => 'st_other');
SET ROLE regress_objstore_stores;
SELECT objstore_push('st_data', server => 'st_plain');
CREATE USER MAPPING FOR CURRENT_USER SERVER st_plain OPTIONS (access_key_id 'x');
SELECT objstore_push('st_data', server => 'st_plain');
SELECT objstore_pull('st_data', server => 'st_plain');
RESET ROLE;
SET pgobjstore.default_server = '';
SELECT objstore_push('st_data');
SET pgobjstore.default_server = 'gone';
SELECT objstore_push('st_data');
RESET pgobjstore.default_server;
SELECT count(*) AS jobs FROM objstore_jobs WHERE relation ~ 'st_data';

-- A file: store is for superusers to make and to change.
GRANT USAGE ON FOREIGN DATA WRAPPER objstore TO regress_objstore_stores;
SET ROLE regress_objstore_stores;
CREATE SERVER st_mine FOREIGN DATA WRAPPER objstore OPTIONS (url 's3://bucket');
CREATE SERVER st FOREIGN DATA WRAPPER objstore OPTIONS (url 'file:///etc');
ALTER SERVER st_mine OPTIONS (SET url 'file:///etc');
RESET ROLE;
ALTER SERVER st_file OWNER TO regress_objstore_stores;
SET ROLE regress_objstore_stores;
ALTER SERVER st_file OPTIONS (SET url 'file:///etc');
RESET ROLE;

SET client_min_messages = warning;
DROP SERVER st_all, st_plain, st_file, st_mine, st_other CASCADE;
DROP FOREIGN DATA WRAPPER st_other;
DROP OWNED BY regress_objstore_stores CASCADE;
DROP ROLE regress_objstore_stores;
