-- Tables of the benchmark: made by arithmetic alone, so the same on every machine.
CREATE SCHEMA bench;

-- A pseudo-random number in [0, n) out of a row's number and a purpose.
CREATE FUNCTION bench.r(i bigint, purpose bigint, n bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN (hashint8extended(i, purpose) & 9223372036854775807) % n;

-- Sentences of 10 to 43 characters, as in TPC-H; more than fit into a compressor's window.
CREATE TABLE bench.sentence AS
WITH word AS (
	SELECT string_to_array('furiously quickly slyly carefully blithely ironic final bold express regular special '
		'pending silent even unusual ruthless deposits requests accounts packages instructions theodolites '
		'foxes pinto beans ideas platelets asymptotes dependencies excuses courts dolphins sleep wake are '
		'cajole haggle nag use boost affix detect integrate among above according to across after against along '
		'the', ' ') AS w)
SELECT id, substr(string_agg(w[1 + bench.r(id * 10 + n, 1, array_length(w, 1))], ' ' ORDER BY n),
	1 + bench.r(id, 2, 6)::int, 10 + bench.r(id, 3, 34)::int) AS s
FROM word, generate_series(0, 299999) id, generate_series(0, 9) n
GROUP BY id;
ALTER TABLE bench.sentence ADD PRIMARY KEY (id);
ANALYZE bench.sentence;

-- TPC-H's lineitem: orders of one to seven lines.
CREATE PROCEDURE bench.make_lineitem(name text, lines bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (
		l_orderkey bigint NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL,
		l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL,
		l_discount numeric(15,2) NOT NULL, l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL,
		l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL,
		l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL,
		l_comment varchar(44) NOT NULL)', name);
	EXECUTE format($sql$
		INSERT INTO %I
		SELECT o * 4, part, 1 + (part * 7 + line * 2503) %% 10000, line, quantity,
			(quantity * (90000 + (part / 10) %% 20001 + 100 * (part %% 1000)) / 100.0)::numeric(15,2),
			bench.r(i, 14, 11) / 100.0, bench.r(i, 15, 9) / 100.0,
			CASE WHEN received <= date '1995-06-17' THEN CASE bench.r(i, 16, 2) WHEN 0 THEN 'R' ELSE 'A' END ELSE 'N' END,
			CASE WHEN shipped > date '1995-06-17' THEN 'O' ELSE 'F' END,
			shipped, ordered + 30 + bench.r(i, 17, 61)::int, received,
			(ARRAY['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'])[1 + bench.r(i, 18, 4)],
			(ARRAY['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'])[1 + bench.r(i, 19, 7)],
			s.s
		FROM (SELECT o, line, o * 8 + line AS i, 1 + bench.r(o * 8 + line, 10, 200000) AS part,
				1 + bench.r(o * 8 + line, 11, 50) AS quantity, date '1992-01-01' + bench.r(o, 12, 2406)::int AS ordered,
				date '1992-01-01' + bench.r(o, 12, 2406)::int + 1 + bench.r(o * 8 + line, 13, 121)::int AS shipped,
				date '1992-01-01' + bench.r(o, 12, 2406)::int + 1 + bench.r(o * 8 + line, 13, 121)::int
					+ 1 + bench.r(o * 8 + line, 20, 30)::int AS received
			FROM generate_series(1, %s) o, generate_series(1, 1 + bench.r(o, 9, 7)) line) l
		JOIN bench.sentence s ON s.id = bench.r(l.i, 21, 300000)$sql$, name, lines / 4);
END $$;

-- pgbench's accounts.
CREATE PROCEDURE bench.make_accounts(name text, accounts bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (aid integer NOT NULL, bid integer, abalance integer, filler character(84))', name);
	EXECUTE format('INSERT INTO %I SELECT i, 1 + (i - 1) / 100000, bench.r(i, 30, 10000) - 5000, '' ''
		FROM generate_series(1, %s) i', name, accounts);
	EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (aid)', name);
END $$;

-- Documents of about 1.1 kB, as an application or a message queue keeps them.
CREATE PROCEDURE bench.make_docs(name text, docs bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (id bigint NOT NULL, created timestamptz NOT NULL, doc jsonb NOT NULL)', name);
	EXECUTE format($sql$
		INSERT INTO %I
		SELECT i, timestamptz '2024-01-01 00:00:00+00' + i * interval '1.7 seconds', jsonb_build_object(
			'event', (ARRAY['order.created', 'order.paid', 'order.shipped', 'order.returned'])[1 + bench.r(i, 40, 4)],
			'request_id', md5(i::text), 'trace_id', md5(i || 'trace'), 'tenant', 'customer-' || bench.r(i, 41, 500),
			'user', jsonb_build_object('id', bench.r(i, 42, 100000), 'name', 'User ' || bench.r(i, 42, 100000),
				'email', 'user' || bench.r(i, 42, 100000) || '@example.com', 'active', bench.r(i, 43, 10) > 0,
				'roles', '["buyer", "reviewer"]'::jsonb),
			'address', jsonb_build_object('street', s1.s, 'city', (ARRAY['Hamburg', 'Lyon', 'Porto', 'Gdansk',
				'Turin', 'Aarhus'])[1 + bench.r(i, 44, 6)], 'zip', lpad(bench.r(i, 45, 99999)::text, 5, '0'), 'country', null),
			'items', (SELECT jsonb_agg(jsonb_build_object('sku', 'SKU-' || lpad(bench.r(i * 8 + k, 46, 20000)::text, 6, '0'),
				'quantity', 1 + bench.r(i * 8 + k, 47, 5), 'price', bench.r(i * 8 + k, 48, 50000) / 100.0,
				'in_stock', bench.r(i * 8 + k, 50, 5) > 0))
				FROM generate_series(1, 4) k),
			'notes', jsonb_build_array(s1.s, s2.s), 'total', bench.r(i, 51, 200000) / 100.0, 'currency', 'EUR',
			'client', jsonb_build_object('ip', '10.' || bench.r(i, 52, 256) || '.' || bench.r(i, 53, 256) || '.7',
				'agent', 'shop/' || bench.r(i, 54, 30) || '.0'),
			'session', md5(i || 'session')::uuid, 'signature', encode(sha256(i::text::bytea), 'hex'))
		FROM generate_series(1, %s) i
		JOIN bench.sentence s1 ON s1.id = bench.r(i, 55, 300000)
		JOIN bench.sentence s2 ON s2.id = bench.r(i, 56, 300000)$sql$, name, docs);
END $$;

-- Rows that are nothing but arrays, of the types that applications keep in them.
CREATE PROCEDURE bench.make_arrays(name text, n bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (id bigint NOT NULL, numbers integer[], amounts numeric(12,2)[], words text[],
		days date[], flags boolean[], measures float8[])', name);
	EXECUTE format($sql$
		INSERT INTO %I
		SELECT i,
			(SELECT array_agg(bench.r(i * 16 + k, 70, 1000000)::integer) FROM generate_series(1, 8) k),
			(SELECT array_agg(bench.r(i * 16 + k, 71, 10000000) / 100.0) FROM generate_series(1, 4) k),
			string_to_array(s.s, ' '),
			(SELECT array_agg(date '2000-01-01' + bench.r(i * 16 + k, 72, 9000)::int) FROM generate_series(1, 3) k),
			ARRAY[bench.r(i, 73, 2) = 0, NULL, bench.r(i, 74, 2) = 0],
			(SELECT array_agg(bench.r(i * 16 + k, 75, 1000000) / 1000.0::float8) FROM generate_series(1, 4) k)
		FROM generate_series(1, %s) i
		JOIN bench.sentence s ON s.id = bench.r(i, 76, 300000)$sql$, name, n);
END $$;

-- Many tables of fewer than 20 rows, each with a primary key and an index.
CREATE PROCEDURE bench.make_tiny(schema text, tables int) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE SCHEMA %I', schema);
	FOR t IN 1 .. tables LOOP
		EXECUTE format('CREATE TABLE %I.%I (id integer NOT NULL, name text NOT NULL, amount numeric(12,2),
			created timestamptz DEFAULT now(), tags text[])', schema, 'tiny' || lpad(t::text, 4, '0'));
		EXECUTE format($sql$
			INSERT INTO %I.%I
			SELECT i, s.s, bench.r(i + %s * 100, 60, 1000000) / 100.0, timestamptz '2024-01-01 00:00:00+00' + i * interval '1 hour',
				string_to_array(s.s, ' ')
			FROM generate_series(1, 5 + bench.r(%s, 61, 15)) i
			JOIN bench.sentence s ON s.id = bench.r(i + %s * 100, 62, 300000)$sql$,
			schema, 'tiny' || lpad(t::text, 4, '0'), t, t, t);
		EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY (id)', schema, 'tiny' || lpad(t::text, 4, '0'));
		EXECUTE format('CREATE INDEX ON %I.%I (name)', schema, 'tiny' || lpad(t::text, 4, '0'));
		-- locks are kept until the commit
		IF t % 50 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
