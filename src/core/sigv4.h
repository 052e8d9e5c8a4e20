/*
 * sigv4.h
 *		AWS Signature Version 4 in request headers, as S3 and the HMAC keys of Google Cloud Storage take it.
 *
 * What is signed is what is sent: the caller gives the path as it goes onto the wire, and sends the query
 * string and the header lines that come back, unchanged.  Every header that is named in a request must be sent
 * with just that value.  S3's rules hold: the path is encoded once and not normalised.
 *
 * Memory: results are palloc'd in the current context; the signing key lives in a struct of the caller's, or
 * nowhere.  Secrets are wiped from all intermediate memory.  Error texts hold no secret and no value.
 *
 * Runs anywhere.  In a backend it needs a CurrentResourceOwner: the server registers its libcrypto contexts
 * there.  Raises nothing but out of memory.  The payload hash, method and service are trusted to be well formed.
 */
#ifndef PGOS_SIGV4_H
#define PGOS_SIGV4_H

#include "core/base.h"
#include "pgtime.h"

/* Payload hash of a body that is not hashed (use it with TLS), and of an empty body. */
#define PGOS_SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"
#define PGOS_SIGV4_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define PGOS_SHA256_SIZE 32
#define PGOS_SHA256_HEX_SIZE 65 /* with the NUL */

/* What differs between the dialects of the scheme. */
typedef struct PgosSigv4Scheme
{
	const char *algorithm;	   /* "AWS4-HMAC-SHA256" */
	const char *secret_prefix; /* "AWS4" */
	const char *terminator;	   /* "aws4_request" */
	const char *header_prefix; /* "x-amz-", lower case */
} PgosSigv4Scheme;

/* Amazon's own; Google Cloud Storage accepts it as well. */
extern const PgosSigv4Scheme pgos_sigv4_aws;

typedef struct PgosSigv4Credentials
{
	const char *access_key_id;
	const char *secret_access_key;
	const char *session_token; /* or NULL */
} PgosSigv4Credentials;

typedef struct PgosNameValue
{
	const char *name;
	const char *value; /* NULL is the same as "" */
} PgosNameValue;

typedef struct PgosSigv4Request
{
	const char *method; /* upper case */
	const char *host;	/* the Host header as sent: with ":port" unless it is the default port */
	const char *path;	/* begins with '/', percent-encoded once (pgos_percent_encode) */
	const PgosNameValue *query; /* raw, in any order */
	int					 nquery;
	const PgosNameValue *headers; /* more headers to sign, each name once; the caller sends them */
	int					 nheaders;
	const char *payload_hash; /* hex SHA-256 of the body in lower case, or PGOS_SIGV4_UNSIGNED */
	const char *region;
	const char *service; /* "s3" */
	pg_time_t	time;	 /* seconds since 1970 */
} PgosSigv4Request;

/*
 * A derived signing key, kept from one request to the next: good for one secret, day, region and service, and
 * derived anew by itself when one of them differs.  Start with all bytes zero; pgos_sigv4_key_reset() when
 * done with it, also from a memory context's reset callback.
 */
typedef struct PgosSigv4Key
{
	bool  valid;
	uint8 id[PGOS_SHA256_SIZE]; /* digest of all that the key was derived from */
	uint8 key[PGOS_SHA256_SIZE];
} PgosSigv4Key;

#define PGOS_SIGV4_MAX_HEADERS 4

typedef struct PgosSigv4Result
{
	char *query; /* encoded and sorted, without '?'; "" for none */
	char
		*headers[PGOS_SIGV4_MAX_HEADERS]; /* "name: value", in addition to Host and the request's */
	int	 nheaders;
	const char *error; /* when signing failed: what is wrong, for a message; static */
} PgosSigv4Result;

/*
 * Signs the request.  cache may be NULL.  Returns false with result->error set, and nothing else in it, when
 * the request cannot be signed (a control character or a repeated header in it) or the crypto library failed.
 */
extern bool
pgos_sigv4_sign(const PgosSigv4Scheme *scheme, const PgosSigv4Credentials *credentials,
				const PgosSigv4Request *request, PgosSigv4Key *cache, PgosSigv4Result *result);

/* Frees a result; the header lines are wiped first, since they hold the signature and the session token. */
extern void pgos_sigv4_result_free(PgosSigv4Result *result);

/* Wipes the key.  Never raises. */
extern void pgos_sigv4_key_reset(PgosSigv4Key *cache);

/* SHA-256 in lower-case hex: the payload hash of a body.  False if the crypto library failed. */
extern bool pgos_sha256_hex(const void *data, size_t len, char out[PGOS_SHA256_HEX_SIZE]);

#endif
