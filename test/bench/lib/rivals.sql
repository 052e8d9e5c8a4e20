-- Rivals inside the server: functions in the manner of the aws_s3 extensions, which go through a temporary file.
CREATE EXTENSION plpython3u;

CREATE FUNCTION bench.s3_export(query text, bucket text, key text, endpoint text, access_key text, secret_key text)
RETURNS bigint LANGUAGE plpython3u AS $$
	import os, tempfile, boto3, botocore.config
	s3 = boto3.client('s3', endpoint_url=endpoint, aws_access_key_id=access_key, aws_secret_access_key=secret_key,
		region_name='us-east-1', config=botocore.config.Config(s3={'addressing_style': 'path'}))
	with tempfile.NamedTemporaryFile() as f:
		os.chmod(f.name, 0o666)
		plpy.execute("COPY (%s) TO %s WITH (FORMAT csv, HEADER)" % (query, plpy.quote_literal(f.name)))
		s3.upload_file(f.name, bucket, key)
		return os.path.getsize(f.name)
$$;

CREATE FUNCTION bench.s3_import(relation text, bucket text, key text, endpoint text, access_key text, secret_key text)
RETURNS bigint LANGUAGE plpython3u AS $$
	import tempfile, boto3, botocore.config
	s3 = boto3.client('s3', endpoint_url=endpoint, aws_access_key_id=access_key, aws_secret_access_key=secret_key,
		region_name='us-east-1', config=botocore.config.Config(s3={'addressing_style': 'path'}))
	with tempfile.NamedTemporaryFile() as f:
		s3.download_fileobj(bucket, key, f)
		f.flush()
		return plpy.execute("COPY %s FROM %s WITH (FORMAT csv, HEADER)" % (relation, plpy.quote_literal(f.name))).nrows()
$$;
