/*
 * sigv4.c
 *		AWS Signature Version 4 in request headers.
 *
 * The canonical request is hashed piece by piece and never exists as one string: it would hold the session
 * token, and a growing buffer leaves copies behind.
 */
#include "core/sigv4.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "core/percent.h"
#include "core/utc.h"

const PgosSigv4Scheme pgos_sigv4_aws = {
	.algorithm = "AWS4-HMAC-SHA256",
	.secret_prefix = "AWS4",
	.terminator = "aws4_request",
	.header_prefix = "x-amz-",
};

/* One header to sign, or one query parameter, in canonical form. */
typedef struct Pair
{
	char *name;
	char *value;
} Pair;

/* All that one signature needs in between; released in one place. */
typedef struct Signing
{
	Pair *headers; /* sorted by name */
	int	  nheaders;
	char *query;
	char *signed_headers; /* "a;b;c" */
	char *scope;		  /* "date/region/service/terminator" */
	char  time[PGOS_UTC_SIZE];
	char  signature[PGOS_SHA256_HEX_SIZE];
} Signing;

/* ---------------------------------------------------------------- crypto */

static void
to_hex(const uint8 digest[PGOS_SHA256_SIZE], char out[PGOS_SHA256_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	int				  i;

	for (i = 0; i < PGOS_SHA256_SIZE; i++)
	{
		out[2 * i] = digits[digest[i] >> 4];
		out[2 * i + 1] = digits[digest[i] & 15];
	}
	out[2 * PGOS_SHA256_SIZE] = '\0';
}

static bool
hash_add(pg_cryptohash_ctx *ctx, const char *text)
{
	return pg_cryptohash_update(ctx, (const uint8 *) text, strlen(text)) >= 0;
}

/* As hash_add(), with the NUL: keeps neighbouring texts apart. */
static bool
hash_add_with_nul(pg_cryptohash_ctx *ctx, const char *text)
{
	return pg_cryptohash_update(ctx, (const uint8 *) text, strlen(text) + 1) >= 0;
}

static pg_cryptohash_ctx *
hash_begin(void)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

	if (ctx != NULL && pg_cryptohash_init(ctx) < 0)
	{
		pg_cryptohash_free(ctx);
		ctx = NULL;
	}
	return ctx;
}

static bool
hmac(const uint8 *key, size_t key_len, const char *text, uint8 digest[PGOS_SHA256_SIZE])
{
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);
	bool		 ok;

	if (ctx == NULL)
		return false;
	ok = pg_hmac_init(ctx, key, key_len) >= 0 &&
		 pg_hmac_update(ctx, (const uint8 *) text, strlen(text)) >= 0 &&
		 pg_hmac_final(ctx, digest, PGOS_SHA256_SIZE) >= 0;
	pg_hmac_free(ctx);
	return ok;
}

bool
pgos_sha256_hex(const void *data, size_t len, char out[PGOS_SHA256_HEX_SIZE])
{
	pg_cryptohash_ctx *ctx = hash_begin();
	uint8			   digest[PGOS_SHA256_SIZE];
	bool			   ok;

	out[0] = '\0';
	if (ctx == NULL)
		return false;
	ok = pg_cryptohash_update(ctx, data, len) >= 0 &&
		 pg_cryptohash_final(ctx, digest, sizeof(digest)) >= 0;
	pg_cryptohash_free(ctx);
	if (ok)
		to_hex(digest, out);
	return ok;
}

/* ---------------------------------------------------------------- signing key */

void
pgos_sigv4_key_reset(PgosSigv4Key *cache)
{
	explicit_bzero(cache, sizeof(*cache));
}

/* Digest of everything that a signing key depends on. */
static bool
key_id(const PgosSigv4Scheme *scheme, const char *secret, const char *date,
	   const PgosSigv4Request *request, uint8 id[PGOS_SHA256_SIZE])
{
	pg_cryptohash_ctx *ctx = hash_begin();
	bool			   ok;

	if (ctx == NULL)
		return false;
	ok = hash_add_with_nul(ctx, scheme->secret_prefix) &&
		 hash_add_with_nul(ctx, scheme->terminator) && hash_add_with_nul(ctx, secret) &&
		 hash_add_with_nul(ctx, date) && hash_add_with_nul(ctx, request->region) &&
		 hash_add_with_nul(ctx, request->service) &&
		 pg_cryptohash_final(ctx, id, PGOS_SHA256_SIZE) >= 0;
	pg_cryptohash_free(ctx);
	return ok;
}

static bool
derive_key(const PgosSigv4Scheme *scheme, const char *secret, const char *date,
		   const PgosSigv4Request *request, uint8 key[PGOS_SHA256_SIZE])
{
	size_t prefix_len = strlen(scheme->secret_prefix);
	size_t secret_len = strlen(secret);
	size_t len = prefix_len + secret_len;
	uint8 *prefixed = palloc(len + 1);
	uint8  step[PGOS_SHA256_SIZE];
	bool   ok;

	memcpy(prefixed, scheme->secret_prefix, prefix_len);
	memcpy(prefixed + prefix_len, secret, secret_len);
	ok = hmac(prefixed, len, date, step) && hmac(step, sizeof(step), request->region, key) &&
		 hmac(key, PGOS_SHA256_SIZE, request->service, step) &&
		 hmac(step, sizeof(step), scheme->terminator, key);
	explicit_bzero(step, sizeof(step));
	explicit_bzero(prefixed, len);
	pfree(prefixed);
	return ok;
}

/* The signing key for the request, out of the cache if it fits. */
static bool
get_key(const PgosSigv4Scheme *scheme, const char *secret, const char *date,
		const PgosSigv4Request *request, PgosSigv4Key *cache)
{
	uint8 id[PGOS_SHA256_SIZE];

	if (!key_id(scheme, secret, date, request, id))
		return false;
	if (cache->valid && memcmp(cache->id, id, sizeof(id)) == 0)
		return true;

	cache->valid = derive_key(scheme, secret, date, request, cache->key);
	memcpy(cache->id, id, sizeof(id));
	return cache->valid;
}

/* ---------------------------------------------------------------- canonical form */

static int
compare_pairs(const void *a, const void *b)
{
	const Pair *x = a;
	const Pair *y = b;
	int			result = strcmp(x->name, y->name);

	return result != 0 ? result : strcmp(x->value, y->value);
}

/* ASCII only: the rules for header names know no other letters. */
static char *
lower_case(const char *text)
{
	char *result = pstrdup(text);
	char *p;

	for (p = result; *p != '\0'; p++)
	{
		if (*p >= 'A' && *p <= 'Z')
			*p += 'a' - 'A';
	}
	return result;
}

/* A header's value without blanks at its ends and with one blank for each run of them inside. */
static char *
canonical_value(const char *value)
{
	char	   *result = palloc(strlen(value) + 1);
	char	   *out = result;
	const char *p;

	for (p = value; *p != '\0'; p++)
	{
		if (*p != ' ' && *p != '\t')
			*out++ = *p;
		else if (out > result && out[-1] != ' ')
			*out++ = ' ';
	}
	if (out > result && out[-1] == ' ')
		out--;
	*out = '\0';
	return result;
}

static char *
canonical_query(const PgosNameValue *query, int nquery)
{
	Pair		  *pairs = palloc(sizeof(Pair) * Max(nquery, 1));
	StringInfoData out;
	int			   i;

	for (i = 0; i < nquery; i++)
	{
		initStringInfo(&out);
		pgos_percent_encode(&out, query[i].name, false);
		pairs[i].name = out.data;
		initStringInfo(&out);
		pgos_percent_encode(&out, query[i].value != NULL ? query[i].value : "", false);
		pairs[i].value = out.data;
	}
	/* Sorted after encoding: the order of the encoded bytes counts. */
	qsort(pairs, nquery, sizeof(Pair), compare_pairs);

	initStringInfo(&out);
	for (i = 0; i < nquery; i++)
	{
		appendStringInfo(&out, "%s%s=%s", i > 0 ? "&" : "", pairs[i].name, pairs[i].value);
		pfree(pairs[i].name);
		pfree(pairs[i].value);
	}
	pfree(pairs);
	return out.data;
}

static void
add_header(Signing *signing, const char *prefix, const char *name, const char *value)
{
	Pair *pair = &signing->headers[signing->nheaders++];
	char *whole = psprintf("%s%s", prefix, name);

	pair->name = lower_case(whole);
	pair->value = canonical_value(value);
	pfree(whole);
}

/* ---------------------------------------------------------------- checks */

/* Nothing that could end a header line or be sent otherwise than it was signed. */
static bool
is_printable(const char *text, bool blanks)
{
	const unsigned char *p;

	for (p = (const unsigned char *) text; *p != '\0'; p++)
	{
		if (*p == ' ' || *p == '\t')
		{
			if (!blanks)
				return false;
		}
		else if (*p < 0x20 || *p == 0x7f)
			return false;
	}
	return true;
}

static bool
is_token(const char *text)
{
	return *text != '\0' && is_printable(text, false) && strpbrk(text, ":;,/") == NULL;
}

static const char *
check_request(const PgosSigv4Credentials *credentials, const PgosSigv4Request *request)
{
	const unsigned char *p;
	int					 i;

	if (credentials->access_key_id[0] == '\0' || !is_printable(credentials->access_key_id, false))
		return "the access key id is empty or contains a blank or a control character";
	if (credentials->secret_access_key[0] == '\0')
		return "the secret access key is empty";
	if (credentials->session_token != NULL && !is_printable(credentials->session_token, false))
		return "the session token contains a blank or a control character";
	if (!is_token(request->region))
		return "the region is empty or contains a character that no region has";
	if (request->host[0] == '\0' || !is_printable(request->host, false))
		return "the host name is empty or contains a blank or a control character";
	if (request->path[0] != '/')
		return "the path of the request does not begin with \"/\"";
	for (p = (const unsigned char *) request->path; *p != '\0'; p++)
	{
		if (*p <= 0x20 || *p >= 0x7f || *p == '?' || *p == '#')
			return "the path of the request is not percent-encoded";
	}
	for (i = 0; i < request->nheaders; i++)
	{
		const char *value = request->headers[i].value;

		if (!is_token(request->headers[i].name))
			return "the name of a header is empty or contains a character that is not allowed";
		if (value != NULL && !is_printable(value, true))
			return "the value of a header contains a control character";
	}
	return NULL;
}

/* ---------------------------------------------------------------- signing */

static bool
hash_canonical_request(const Signing *signing, const PgosSigv4Request *request,
					   char out[PGOS_SHA256_HEX_SIZE])
{
	pg_cryptohash_ctx *ctx = hash_begin();
	uint8			   digest[PGOS_SHA256_SIZE];
	bool			   ok;
	int				   i;

	if (ctx == NULL)
		return false;
	ok = hash_add(ctx, request->method) && hash_add(ctx, "\n") && hash_add(ctx, request->path) &&
		 hash_add(ctx, "\n") && hash_add(ctx, signing->query) && hash_add(ctx, "\n");
	for (i = 0; ok && i < signing->nheaders; i++)
		ok = hash_add(ctx, signing->headers[i].name) && hash_add(ctx, ":") &&
			 hash_add(ctx, signing->headers[i].value) && hash_add(ctx, "\n");
	ok = ok && hash_add(ctx, "\n") && hash_add(ctx, signing->signed_headers) &&
		 hash_add(ctx, "\n") && hash_add(ctx, request->payload_hash) &&
		 pg_cryptohash_final(ctx, digest, sizeof(digest)) >= 0;
	pg_cryptohash_free(ctx);
	if (ok)
		to_hex(digest, out);
	return ok;
}

static bool
compute_signature(const PgosSigv4Scheme *scheme, const PgosSigv4Credentials *credentials,
				  const PgosSigv4Request *request, PgosSigv4Key *cache, Signing *signing)
{
	PgosSigv4Key own = {0};
	char		 date[PGOS_UTC_DATE_LEN + 1];
	char		 request_hash[PGOS_SHA256_HEX_SIZE];
	char		*to_sign;
	uint8		 digest[PGOS_SHA256_SIZE];
	bool		 ok;

	memcpy(date, signing->time, PGOS_UTC_DATE_LEN);
	date[PGOS_UTC_DATE_LEN] = '\0';
	signing->scope =
		psprintf("%s/%s/%s/%s", date, request->region, request->service, scheme->terminator);
	if (!hash_canonical_request(signing, request, request_hash))
		return false;
	to_sign =
		psprintf("%s\n%s\n%s\n%s", scheme->algorithm, signing->time, signing->scope, request_hash);

	if (cache == NULL)
		cache = &own;
	ok = get_key(scheme, credentials->secret_access_key, date, request, cache) &&
		 hmac(cache->key, sizeof(cache->key), to_sign, digest);
	if (!ok)
		pgos_sigv4_key_reset(cache);
	pgos_sigv4_key_reset(&own);
	pfree(to_sign);
	if (ok)
		to_hex(digest, signing->signature);
	return ok;
}

static void
wipe(char *text)
{
	explicit_bzero(text, strlen(text));
	pfree(text);
}

static void
signing_free(Signing *signing)
{
	int i;

	for (i = 0; i < signing->nheaders; i++)
	{
		pfree(signing->headers[i].name);
		wipe(signing->headers[i].value);
	}
	pfree(signing->headers);
	if (signing->signed_headers != NULL)
		pfree(signing->signed_headers);
	if (signing->scope != NULL)
		pfree(signing->scope);
	if (signing->query != NULL)
		pfree(signing->query);
}

/* Adds all headers to sign, sorts them, and lists their names; an error if a name comes twice. */
static const char *
collect_headers(const PgosSigv4Scheme *scheme, const char *token, const PgosSigv4Request *request,
				Signing *signing)
{
	StringInfoData names;
	const char	  *error = NULL;
	int			   i;

	signing->headers = palloc(sizeof(Pair) * (request->nheaders + PGOS_SIGV4_MAX_HEADERS));
	add_header(signing, "", "host", request->host);
	add_header(signing, scheme->header_prefix, "date", signing->time);
	add_header(signing, scheme->header_prefix, "content-sha256", request->payload_hash);
	if (token != NULL)
		add_header(signing, scheme->header_prefix, "security-token", token);
	for (i = 0; i < request->nheaders; i++)
		add_header(signing, "", request->headers[i].name,
				   request->headers[i].value != NULL ? request->headers[i].value : "");
	qsort(signing->headers, signing->nheaders, sizeof(Pair), compare_pairs);

	initStringInfo(&names);
	for (i = 0; i < signing->nheaders; i++)
	{
		if (i > 0 && strcmp(signing->headers[i].name, signing->headers[i - 1].name) == 0)
			error = "a header is given twice";
		appendStringInfo(&names, "%s%s", i > 0 ? ";" : "", signing->headers[i].name);
	}
	signing->signed_headers = names.data;
	return error;
}

/* "<prefix><name>: <value>", allocated at its final size at once: the token is copied into no scrap. */
static char *
header_line(const char *prefix, const char *name, const char *value)
{
	size_t size = strlen(prefix) + strlen(name) + strlen(value) + 3;
	char  *line = palloc(size);

	snprintf(line, size, "%s%s: %s", prefix, name, value);
	return line;
}

bool
pgos_sigv4_sign(const PgosSigv4Scheme *scheme, const PgosSigv4Credentials *credentials,
				const PgosSigv4Request *request, PgosSigv4Key *cache, PgosSigv4Result *result)
{
	const char *token = credentials->session_token;
	Signing		signing = {0};
	char	   *authorization;
	int			n = 0;

	memset(result, 0, sizeof(*result));
	result->error = check_request(credentials, request);
	if (result->error != NULL)
		return false;
	if (token != NULL && token[0] == '\0')
		token = NULL;

	pgos_utc_format(request->time, signing.time);
	result->error = collect_headers(scheme, token, request, &signing);
	if (result->error == NULL)
	{
		signing.query = canonical_query(request->query, request->nquery);
		if (!compute_signature(scheme, credentials, request, cache, &signing))
			result->error = "the crypto library could not compute a SHA-256";
	}
	if (result->error != NULL)
	{
		signing_free(&signing);
		return false;
	}

	authorization = psprintf("%s Credential=%s/%s,SignedHeaders=%s,Signature=%s", scheme->algorithm,
							 credentials->access_key_id, signing.scope, signing.signed_headers,
							 signing.signature);
	result->headers[n++] = header_line("", "Authorization", authorization);
	result->headers[n++] = header_line(scheme->header_prefix, "date", signing.time);
	result->headers[n++] =
		header_line(scheme->header_prefix, "content-sha256", request->payload_hash);
	if (token != NULL)
		result->headers[n++] = header_line(scheme->header_prefix, "security-token", token);
	Assert(n <= PGOS_SIGV4_MAX_HEADERS);
	result->nheaders = n;
	result->query = signing.query;
	signing.query = NULL;
	pfree(authorization);
	signing_free(&signing);
	return true;
}

void
pgos_sigv4_result_free(PgosSigv4Result *result)
{
	int i;

	for (i = 0; i < result->nheaders; i++)
		wipe(result->headers[i]);
	if (result->query != NULL)
		pfree(result->query);
	memset(result, 0, sizeof(*result));
}
