/*
 * s3.c
 *		The S3 driver: opening, requests on single objects.
 *
 * Works with Amazon S3 and with what speaks its protocol.  One bucket per store; all keys below the url's
 * prefix.  Objects are addressed in path style (https://endpoint/bucket/key) or by virtual host
 * (https://bucket.endpoint/key).
 */
#include "postgres.h"

#include "core/percent.h"
#include "store/s3_internal.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MIB ((int64) 1024 * 1024)
#define S3_MIN_PART_SIZE (5 * MIB)
#define S3_MAX_PART_SIZE (5 * 1024 * MIB)
#define S3_MAX_PARTS 10000
#define S3_MAX_OBJECT_SIZE (5 * 1024 * 1024 * MIB)

/* ---------------------------------------------------------------- opening */

/* Reset callback of the store's context: the derived key leaves memory with the store. */
static void
wipe_key(void *arg)
{
	pgos_sigv4_key_reset(&((PgosS3 *) arg)->signing_key);
}

/* Amazon's own host for the region. */
static char *
default_host(const char *region)
{
	return psprintf("s3.%s.amazonaws.com%s", region, strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
}

static void
s3_open(PgosStore *store)
{
	PgosStoreOptions *options = &store->options;
	PgosEndpoint	 *endpoint = &options->endpoint;
	PgosS3			 *s3 = palloc0(sizeof(PgosS3));
	bool			  virtual_host = options->url_style == PGOS_URL_VIRTUAL;
	StringInfoData	  bucket_path;

	if (!options->has_endpoint)
	{
		endpoint->tls = true;
		endpoint->host = default_host(options->region);
		endpoint->port = 443;
		endpoint->port_is_default = true;
	}
	/* A certificate for *.endpoint does not cover a bucket with a dot in its name. */
	if (options->url_style == PGOS_URL_AUTO)
		virtual_host = !options->has_endpoint && strchr(options->url.bucket, '.') == NULL;

	s3->endpoint = virtual_host ? psprintf("%s.%s", options->url.bucket, endpoint->host)
								: pstrdup(endpoint->host);
	s3->host =
		endpoint->port_is_default ? s3->endpoint : psprintf("%s:%d", s3->endpoint, endpoint->port);
	s3->endpoint = psprintf("%s:%d", s3->endpoint, endpoint->port);
	s3->base_url = psprintf("%s://%s/", endpoint->tls ? "https" : "http", s3->endpoint);

	initStringInfo(&bucket_path);
	if (!virtual_host)
	{
		appendStringInfoChar(&bucket_path, '/');
		pgos_percent_encode(&bucket_path, options->url.bucket, false);
	}
	s3->bucket_path = bucket_path.data;
	s3->key_prefix = options->url.prefix[0] != '\0' ? psprintf("%s/", options->url.prefix) : "";

	s3->credentials.access_key_id = options->access_key_id;
	s3->credentials.secret_access_key = options->secret_access_key;
	s3->credentials.session_token = options->session_token;
	s3->callback.func = wipe_key;
	s3->callback.arg = s3;
	MemoryContextRegisterResetCallback(store->context, &s3->callback);

	store->limits.min_part_size = S3_MIN_PART_SIZE;
	store->limits.max_part_size = S3_MAX_PART_SIZE;
	store->limits.max_parts = S3_MAX_PARTS;
	store->limits.max_object_size = S3_MAX_OBJECT_SIZE;
	store->state = s3;
}

static char *
s3_url(PgosStore *store, const char *key)
{
	PgosS3 *s3 = store->state;
	char   *url = psprintf("s3://%s/%s%s", store->options.url.bucket, s3->key_prefix, key);
	char   *shown = pgos_display_text(url);

	pfree(url);
	return shown;
}

/* ---------------------------------------------------------------- PUT */

/*
 * The object is there if the answer is 2xx with an ETag.  Without one HEAD decides; so it does when a
 * conditional request is refused, which may be because of an earlier attempt whose answer was lost (also one
 * that libcurl repeated by itself): then the object carries the token of this upload.
 */
static bool
decide_put(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	const char	   *token = call->arg;
	PgosObjectInfo *info = call->info;

	if (reply->fault != PGOS_HTTP_FAULT_NONE)
		return false;

	if (!call->verifying)
	{
		if (reply->status >= 200 && reply->status <= 299)
		{
			if (reply->etag[0] == '\0')
			{
				*verdict = pgos_s3_call_verify(call);
				return true;
			}
			if (info != NULL)
			{
				pgos_s3_info(reply, info);
				info->size = (int64) call->body_len;
				info->mtime = reply->date;
			}
			*verdict = PGOS_HTTP_DONE;
			return true;
		}
		if (call->conditional && (reply->status == 412 || reply->status == 409))
		{
			*verdict = pgos_s3_call_verify(call);
			return true;
		}
		return false;
	}

	if (reply->status == 200)
	{
		bool ours = reply->content_length == (int64) call->body_len &&
					(!call->refused || (token != NULL && strcmp(reply->upload_token, token) == 0));

		if (ours && info != NULL)
			pgos_s3_info(reply, info);
		if (!ours && !call->refused)
		{
			call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
			call->reason =
				"the store answered without an ETag, and the object is not what was sent";
		}
		*verdict = ours ? PGOS_HTTP_DONE : PGOS_HTTP_FAIL;
		return true;
	}
	if (reply->status == 404 && call->refused)
	{
		/* Refused because of somebody else's attempt, which has failed: ours may succeed. */
		call->verifying = false;
		*verdict = PGOS_HTTP_RETRY;
		return true;
	}
	if (reply->status == 404)
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason = "the store answered without an ETag, and the object is not there";
		*verdict = PGOS_HTTP_FAIL;
		return true;
	}
	return false;
}

static PgosRequest *
s3_put_start(PgosStore *store, const char *key, const void *data, size_t len,
			 PgosPutCondition condition, PgosObjectInfo *info)
{
	PgosS3Call *call = pgos_s3_call_create(store, PGOS_HTTP_PUT, key, "write \"%s\" to");

	pgos_s3_call_body(call, data, len);
	pgos_s3_call_header(call, "Content-Type", "application/octet-stream");
	if (condition == PGOS_PUT_IF_ABSENT)
	{
		call->conditional = true;
		call->arg = pgos_s3_token(call->base.context);
		pgos_s3_call_header(call, "If-None-Match", "*");
		pgos_s3_call_header(call, PGOS_S3_TOKEN_HEADER, call->arg);
	}
	call->info = info;
	call->decide = decide_put;
	pgos_s3_call_start(call);
	return &call->base;
}

char *
pgos_s3_token(MemoryContext context)
{
	uint8 random[16];
	char *token = MemoryContextAlloc(context, sizeof(random) * 2 + 1);

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
	token[hex_encode((const char *) random, sizeof(random), token)] = '\0';
	return token;
}

/* ---------------------------------------------------------------- GET of a range */

static void
refuse_range(PgosS3Call *call, int sqlstate, const char *reason)
{
	call->sqlstate = sqlstate;
	call->reason = reason;
	call->error.status = 0;
}

/*
 * Trusts the bytes of an answer only if it says that they are the ones asked for, of the version that earlier
 * bytes are of.  What arrived of a broken answer is kept, and the rest asked for.
 */
static bool
decide_get(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	int64 from = call->offset + (int64) call->dest_have;
	int64 size;

	if (reply->status != 206 && reply->status != 200)
		return false;
	if (reply->status == 200 && from != 0)
	{
		refuse_range(call, ERRCODE_PROTOCOL_VIOLATION, "the store ignored the range asked for");
		*verdict = PGOS_HTTP_FAIL;
		return true;
	}
	if (reply->status == 206 && reply->range_start != from)
	{
		refuse_range(call, ERRCODE_PROTOCOL_VIOLATION, "the store answered with another range");
		*verdict = PGOS_HTTP_RETRY;
		return true;
	}

	size = reply->status == 206 ? reply->range_total : reply->content_length;
	if (size >= 0 && size < call->offset + (int64) call->dest_len)
	{
		refuse_range(call, ERRCODE_DATA_CORRUPTED, "the object is shorter than expected");
		*verdict = PGOS_HTTP_FAIL;
		return true;
	}
	if (reply->fault == PGOS_HTTP_FAULT_TOO_LARGE)
	{
		refuse_range(call, ERRCODE_PROTOCOL_VIOLATION, "the store sent more bytes than asked for");
		*verdict = PGOS_HTTP_FAIL;
		return true;
	}

	call->dest_have += reply->dest_filled;
	if (call->if_match[0] == '\0')
		strlcpy(call->if_match, reply->etag, sizeof(call->if_match));
	if (call->dest_have == call->dest_len)
	{
		*verdict = PGOS_HTTP_DONE;
		return true;
	}
	if (reply->fault != PGOS_HTTP_FAULT_NONE)
		return false;
	refuse_range(call, ERRCODE_CONNECTION_FAILURE, "the answer is shorter than announced");
	*verdict = PGOS_HTTP_RETRY;
	return true;
}

static PgosRequest *
s3_get_start(PgosStore *store, const char *key, int64 offset, size_t len, const char *if_match,
			 void *dest)
{
	PgosS3Call *call = pgos_s3_call_create(store, PGOS_HTTP_GET, key, "read \"%s\" from");

	if (len == 0)
	{
		pgos_request_set_done(&call->base);
		return &call->base;
	}
	call->dest = dest;
	call->offset = offset;
	call->dest_len = len;
	if (if_match != NULL)
		strlcpy(call->if_match, if_match, sizeof(call->if_match));
	call->decide = decide_get;
	pgos_s3_call_start(call);
	return &call->base;
}

/* ---------------------------------------------------------------- synchronous calls */

static bool
decide_head(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	if (reply->fault != PGOS_HTTP_FAULT_NONE || reply->status != 200)
		return false;
	if (call->info != NULL && reply->content_length < 0)
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason = "the answer does not say how large the object is";
		*verdict = PGOS_HTTP_RETRY;
		return true;
	}
	if (call->info != NULL)
		pgos_s3_info(reply, call->info);
	*verdict = PGOS_HTTP_DONE;
	return true;
}

bool
pgos_s3_head(PgosStore *store, const char *key, PgosObjectInfo *info)
{
	PgosS3Call *call = pgos_s3_call_create(store, PGOS_HTTP_HEAD, key, "look at \"%s\" on");
	bool		found;

	call->info = info;
	call->not_found_ok = true;
	call->decide = decide_head;
	pgos_s3_call_run_or_raise(call);
	found = !call->not_found;
	pgos_request_cancel(&call->base);
	return found;
}

typedef struct ReadResult
{
	MemoryContext context; /* the caller's */
	char		 *data;
	size_t		  len;
} ReadResult;

static bool
decide_read(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	ReadResult *result = call->arg;

	if (reply->fault == PGOS_HTTP_FAULT_TOO_LARGE && reply->status == 200)
	{
		call->sqlstate = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		call->reason = MemoryContextStrdup(
			call->base.context, psprintf("the object is larger than %zu bytes", call->body_max));
		*verdict = PGOS_HTTP_FAIL;
		return true;
	}
	if (reply->fault != PGOS_HTTP_FAULT_NONE || reply->status != 200)
		return false;

	result->data =
		MemoryContextAllocExtended(result->context, reply->body_len + 1, MCXT_ALLOC_HUGE);
	if (reply->body_len > 0)
		memcpy(result->data, reply->body, reply->body_len);
	result->data[reply->body_len] = '\0';
	result->len = reply->body_len;
	if (call->info != NULL)
	{
		pgos_s3_info(reply, call->info);
		call->info->size = (int64) reply->body_len;
	}
	*verdict = PGOS_HTTP_DONE;
	return true;
}

static char *
s3_read(PgosStore *store, const char *key, size_t max_len, size_t *len, PgosObjectInfo *info)
{
	PgosS3Call *call = pgos_s3_call_create(store, PGOS_HTTP_GET, key, "read \"%s\" from");
	ReadResult	result = {CurrentMemoryContext, NULL, 0};

	call->body_max = max_len;
	call->info = info;
	call->not_found_ok = true;
	call->arg = &result;
	call->decide = decide_read;
	pgos_s3_call_run_or_raise(call);
	pgos_request_cancel(&call->base);
	*len = result.len;
	return result.data;
}

static void
s3_delete(PgosStore *store, const char *key)
{
	PgosS3Call *call = pgos_s3_call_create(store, PGOS_HTTP_DELETE, key, "delete \"%s\" from");

	call->not_found_ok = true;
	pgos_s3_call_run_or_raise(call);
	pgos_request_cancel(&call->base);
}

const PgosStoreDriver pgos_s3_driver = {.open = s3_open,
										.url = s3_url,
										.put_start = s3_put_start,
										.get_start = s3_get_start,
										.upload_begin = pgos_s3_upload_begin,
										.upload_part_start = pgos_s3_upload_part_start,
										.upload_complete = pgos_s3_upload_complete,
										.upload_abort = pgos_s3_upload_abort,
										.upload_abort_all = pgos_s3_upload_abort_all,
										.head = pgos_s3_head,
										.read = s3_read,
										.delete = s3_delete,
										.list = pgos_s3_list};
