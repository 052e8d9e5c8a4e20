-- The encoder without a store; see nullsink.c.
CREATE FUNCTION bench.null_push(relation regclass, format text, fast_path boolean, level integer) RETURNS bigint
LANGUAGE C AS :'library', 'null_push';
