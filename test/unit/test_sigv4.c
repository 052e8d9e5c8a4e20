/*
 * test_sigv4.c
 *		Signatures: the examples that Amazon publishes for S3, and odd keys and queries computed by botocore.
 */
#include "tap.h"

#include "core/percent.h"
#include "core/sigv4.h"

typedef struct SignVector
{
	const char	 *method;
	const char	 *host;
	const char	 *key;
	PgosNameValue query[6];
	int			  nquery;
	PgosNameValue headers[3];
	int			  nheaders;
	const char	 *token;
	const char	 *payload_hash;
	const char	 *path;			 /* expected */
	const char	 *encoded_query; /* expected */
	const char	 *authorization; /* expected */
} SignVector;

#include "sigv4_vectors.h"

/* 2013-05-24 00:00:00 and 2023-12-31 23:59:58 UTC, by date(1). */
#define AMAZON_TIME 1369353600
#define VECTOR_TIME 1704067198

static const PgosSigv4Credentials example = {
	.access_key_id = "AKIAIOSFODNN7EXAMPLE",
	.secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};

static PgosSigv4Request
amazon_request(const char *method, const char *path)
{
	PgosSigv4Request request = {
		.method = method,
		.host = "examplebucket.s3.amazonaws.com",
		.path = path,
		.payload_hash = PGOS_SIGV4_EMPTY,
		.region = "us-east-1",
		.service = "s3",
		.time = AMAZON_TIME,
	};

	return request;
}

/* The value of the header line with this name, or NULL. */
static const char *
header(const PgosSigv4Result *result, const char *name)
{
	size_t len = strlen(name);
	int	   i;

	for (i = 0; i < result->nheaders; i++)
	{
		if (strncmp(result->headers[i], name, len) == 0 &&
			strncmp(result->headers[i] + len, ": ", 2) == 0)
			return result->headers[i] + len + 2;
	}
	return NULL;
}

static void
is_signature(const PgosSigv4Request *request, PgosSigv4Key *cache, const char *signature,
			 const char *name)
{
	PgosSigv4Result result;

	if (pgos_sigv4_sign(&pgos_sigv4_aws, &example, request, cache, &result))
	{
		const char *authorization = header(&result, "Authorization");
		const char *found = authorization ? strstr(authorization, ",Signature=") : NULL;

		is_str(found ? found + strlen(",Signature=") : NULL, signature, name);
		pgos_sigv4_result_free(&result);
	}
	else
		is_str(result.error, NULL, name);
}

static void
test_amazon(void)
{
	PgosNameValue	 range[] = {{"Range", "bytes=0-9"}};
	PgosNameValue	 put[] = {{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
							  {"Date", "Fri, 24 May 2013 00:00:00 GMT"}};
	PgosNameValue	 lifecycle[] = {{"lifecycle", NULL}};
	PgosNameValue	 list[] = {{"prefix", "J"}, {"max-keys", "2"}};
	const char		*body = "Welcome to Amazon S3.";
	char			 body_hash[PGOS_SHA256_HEX_SIZE];
	PgosSigv4Request request;
	StringInfoData	 path;

	request = amazon_request("GET", "/test.txt");
	request.headers = range;
	request.nheaders = 1;
	is_signature(&request, NULL, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
				 "Amazon: GET object with a range");

	initStringInfo(&path);
	pgos_percent_encode(&path, "/test$file.text", true);
	request = amazon_request("PUT", path.data);
	request.headers = put;
	request.nheaders = 2;
	ok(pgos_sha256_hex(body, strlen(body), body_hash), "hash of a body");
	is_str(body_hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
		   "Amazon: hash of the example's body");
	request.payload_hash = body_hash;
	is_signature(&request, NULL, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
				 "Amazon: PUT object");
	pfree(path.data);

	request = amazon_request("GET", "/");
	request.query = lifecycle;
	request.nquery = 1;
	is_signature(&request, NULL, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
				 "Amazon: GET lifecycle");

	request.query = list;
	request.nquery = 2;
	is_signature(&request, NULL, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
				 "Amazon: list objects");
}

static void
test_vectors(void)
{
	PgosSigv4Key cache = {0};
	int			 i;

	for (i = 0; i < lengthof(sign_vectors); i++)
	{
		const SignVector	*vector = &sign_vectors[i];
		PgosSigv4Credentials credentials = example;
		PgosSigv4Request	 request = {
				.method = vector->method,
				.host = vector->host,
				.query = vector->query,
				.nquery = vector->nquery,
				.headers = vector->headers,
				.nheaders = vector->nheaders,
				.payload_hash = vector->payload_hash,
				.region = "eu-west-1",
				.service = "s3",
				.time = VECTOR_TIME,
		};
		PgosSigv4Result result;
		StringInfoData	path;
		char			name[64];

		credentials.session_token = vector->token;
		initStringInfo(&path);
		appendStringInfoChar(&path, '/');
		pgos_percent_encode(&path, vector->key, true);
		snprintf(name, sizeof(name), "vector %d: path", i);
		is_str(path.data, vector->path, name);

		request.path = path.data;
		snprintf(name, sizeof(name), "vector %d: signed", i);
		if (ok(pgos_sigv4_sign(&pgos_sigv4_aws, &credentials, &request, &cache, &result), "%s",
			   name))
		{
			snprintf(name, sizeof(name), "vector %d: query", i);
			is_str(result.query, vector->encoded_query, name);
			snprintf(name, sizeof(name), "vector %d: authorization", i);
			is_str(header(&result, "Authorization"), vector->authorization, name);
			is_str(header(&result, "x-amz-date"), "20231231T235958Z", "date header");
			is_str(header(&result, "x-amz-content-sha256"), vector->payload_hash,
				   "payload hash header");
			is_str(header(&result, "x-amz-security-token"), vector->token, "token header");
			is_int(result.nheaders, vector->token ? 4 : 3, "number of header lines");
			pgos_sigv4_result_free(&result);
		}
		pfree(path.data);
	}
	pgos_sigv4_key_reset(&cache);
}

/* The cache never gives a key that was derived from something else. */
static void
test_cache(void)
{
	static const char *const expected =
		"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
	PgosNameValue		 lifecycle[] = {{"lifecycle", ""}};
	PgosSigv4Request	 request = amazon_request("GET", "/");
	PgosSigv4Key		 cache = {0};
	PgosSigv4Key		 zero = {0};
	PgosSigv4Key		 kept;
	PgosSigv4Result		 result;
	PgosSigv4Credentials other = example;
	int					 i;

	request.query = lifecycle;
	request.nquery = 1;
	is_signature(&request, &cache, expected, "cache: empty");
	kept = cache;
	is_signature(&request, &cache, expected, "cache: filled");
	ok(memcmp(&kept, &cache, sizeof(cache)) == 0, "cache: untouched when it fits");

	/* It is really used: with a spoilt key the signature is another. */
	cache.key[0] ^= 1;
	ok(pgos_sigv4_sign(&pgos_sigv4_aws, &example, &request, &cache, &result) &&
		   strstr(result.headers[0], expected) == NULL,
	   "cache: the key in it is used");
	pgos_sigv4_result_free(&result);
	cache.key[0] ^= 1;

	for (i = 0; i < 4; i++)
	{
		PgosSigv4Request			changed = request;
		const PgosSigv4Credentials *credentials = &example;
		PgosSigv4Scheme				scheme = pgos_sigv4_aws;
		PgosSigv4Result				fresh;

		if (i == 0)
			changed.region = "us-east-2";
		else if (i == 1)
			changed.time += 86400;
		else if (i == 2)
		{
			other.secret_access_key = "another";
			credentials = &other;
		}
		else
			scheme.secret_prefix = "GOOG4";

		is_signature(&request, &cache, expected, "cache: back at the first");
		if (!ok(pgos_sigv4_sign(&scheme, credentials, &changed, &cache, &result) &&
					pgos_sigv4_sign(&scheme, credentials, &changed, NULL, &fresh),
				"cache: change %d signed", i))
			continue;
		is_str(result.headers[0], fresh.headers[0], "cache: changed as without a cache");
		ok(memcmp(kept.key, cache.key, sizeof(kept.key)) != 0, "cache: another key");
		pgos_sigv4_result_free(&result);
		pgos_sigv4_result_free(&fresh);
	}

	pgos_sigv4_key_reset(&cache);
	ok(memcmp(&zero, &cache, sizeof(cache)) == 0, "cache: wiped");
}

/* Another dialect changes every place that it should; no other implementation computes these signatures. */
static void
test_scheme(void)
{
	static const PgosSigv4Scheme google = {
		.algorithm = "GOOG4-HMAC-SHA256",
		.secret_prefix = "GOOG4",
		.terminator = "goog4_request",
		.header_prefix = "x-goog-",
	};
	PgosSigv4Request request = amazon_request("GET", "/");
	PgosSigv4Result	 result;

	if (!ok(pgos_sigv4_sign(&google, &example, &request, NULL, &result), "scheme: signed"))
		return;
	has_str(header(&result, "Authorization"),
			"GOOG4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/goog4_request,"
			"SignedHeaders=host;x-goog-content-sha256;x-goog-date,Signature=",
			"scheme: authorization");
	is_str(header(&result, "x-goog-date"), "20130524T000000Z", "scheme: date");
	is_str(header(&result, "x-goog-content-sha256"), PGOS_SIGV4_EMPTY, "scheme: payload hash");
	is_str(result.query, "", "scheme: no query");
	pgos_sigv4_result_free(&result);
}

/* Parameters of one name are ordered by value. */
static void
test_repeated_parameter(void)
{
	PgosNameValue	 query[] = {{"b", "2"}, {"a", "z"}, {"b", "10"}, {"a", NULL}, {"b", "1"}};
	PgosSigv4Request request = amazon_request("GET", "/");
	PgosSigv4Result	 result;

	request.query = query;
	request.nquery = lengthof(query);
	if (!ok(pgos_sigv4_sign(&pgos_sigv4_aws, &example, &request, NULL, &result),
			"repeated: signed"))
		return;
	is_str(result.query, "a=&a=z&b=1&b=10&b=2", "repeated parameters are sorted");
	pgos_sigv4_result_free(&result);
}

static void
is_refused(const PgosSigv4Credentials *credentials, const PgosSigv4Request *request,
		   const char *part, const char *name)
{
	PgosSigv4Result result;

	ok(!pgos_sigv4_sign(&pgos_sigv4_aws, credentials, request, NULL, &result), "%s: refused", name);
	has_str(result.error, part, name);
	ok(result.nheaders == 0 && result.query == NULL, "%s: nothing returned", name);
}

static void
test_refused(void)
{
	PgosNameValue		 injected[] = {{"x-amz-meta-a", "b\r\nx-evil: 1"}};
	PgosNameValue		 bad_name[] = {{"x-amz:a", "b"}};
	PgosNameValue		 twice[] = {{"If-Match", "a"}, {"if-match", "b"}};
	PgosNameValue		 own[] = {{"Host", "elsewhere"}};
	PgosSigv4Request	 request = amazon_request("GET", "/");
	PgosSigv4Credentials credentials;

	request.nheaders = 1;
	request.headers = injected;
	is_refused(&example, &request, "control character", "header injection");
	request.headers = bad_name;
	is_refused(&example, &request, "name of a header", "bad header name");
	request.headers = own;
	is_refused(&example, &request, "twice", "second host");
	request.headers = twice;
	request.nheaders = 2;
	is_refused(&example, &request, "twice", "repeated header");

	request = amazon_request("GET", "test.txt");
	is_refused(&example, &request, "begin with", "relative path");
	request = amazon_request("GET", "/a b");
	is_refused(&example, &request, "percent-encoded", "raw path");
	request = amazon_request("GET", "/a?b");
	is_refused(&example, &request, "percent-encoded", "query in the path");
	request = amazon_request("GET", "/");
	request.region = "us/east";
	is_refused(&example, &request, "region", "bad region");

	request = amazon_request("GET", "/");
	request.host = "";
	is_refused(&example, &request, "host", "no host");
	request = amazon_request("GET", "/");
	credentials = example;
	credentials.secret_access_key = "";
	is_refused(&credentials, &request, "secret access key", "no secret");
	credentials = example;
	credentials.session_token = "token\n";
	is_refused(&credentials, &request, "session token", "token with a line end");
	credentials = example;
	credentials.access_key_id = "AK ID";
	is_refused(&credentials, &request, "access key id", "bad access key id");
}

int
main(void)
{
	char hash[PGOS_SHA256_HEX_SIZE];

	test_amazon();
	test_vectors();
	test_cache();
	test_scheme();
	test_repeated_parameter();
	test_refused();

	/* FIPS 180 examples. */
	pgos_sha256_hex("", 0, hash);
	is_str(hash, PGOS_SIGV4_EMPTY, "hash of nothing");
	pgos_sha256_hex("abc", 3, hash);
	is_str(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "hash of abc");
	return tap_end();
}
