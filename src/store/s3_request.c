/*
 * s3_request.c
 *		One call of the S3 API: built once, signed for every attempt, judged, ended.
 *
 * A call is a PgosRequest; its memory is the request's context.  Below that lives the HTTP operation, so that
 * freeing the request takes it off the wire.
 */
#include "postgres.h"

#include <time.h>

#include "core/percent.h"
#include "store/s3_internal.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* A call may go back to its first step: this often at most, since each step counts its attempts from 0. */
#define MAX_VERIFICATIONS 3

static void
forget_error(PgosS3Call *call)
{
	call->error.status = 0;
	call->error.code = call->error.message = call->error.request_id = call->error.region = "";
}

PgosS3Call *
pgos_s3_call_create(PgosStore *store, PgosHttpMethod method, const char *key, const char *action)
{
	PgosS3		  *s3 = store->state;
	PgosS3Call	  *call;
	MemoryContext  old;
	StringInfoData path;
	char		  *object;

	if (key != NULL && strlen(s3->key_prefix) + strlen(key) > PGOS_S3_MAX_KEY)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("object key on server \"%s\" is longer than %d bytes",
							   store->options.server_name, PGOS_S3_MAX_KEY),
						errdetail("The key is \"%s%s\".", pgos_display_text(s3->key_prefix),
								  pgos_display_text(key))));

	call = (PgosS3Call *) pgos_request_create(store, sizeof(PgosS3Call));
	old = MemoryContextSwitchTo(call->base.context);
	object =
		psprintf("s3://%s/%s%s", store->options.url.bucket, s3->key_prefix, key != NULL ? key : "");
	if (key == NULL)
		object[strlen(object) - 1] = '\0';

	call->method = method;
	call->action = psprintf(action, pgos_display_text(object));
	initStringInfo(&path);
	appendStringInfoString(&path, s3->bucket_path);
	if (key != NULL)
	{
		appendStringInfoChar(&path, '/');
		pgos_percent_encode(&path, s3->key_prefix, true);
		pgos_percent_encode(&path, key, true);
	}
	else if (path.len == 0)
		appendStringInfoChar(&path, '/');
	call->path = path.data;
	call->body_max = PGOS_S3_MAX_ANSWER;
	strlcpy(call->payload_hash, PGOS_SIGV4_EMPTY, sizeof(call->payload_hash));
	forget_error(call);
	MemoryContextSwitchTo(old);
	return call;
}

void
pgos_s3_call_query(PgosS3Call *call, const char *name, const char *value)
{
	Assert(call->nquery < PGOS_S3_MAX_PARAMS);
	call->query[call->nquery].name = name;
	call->query[call->nquery++].value = value;
}

void
pgos_s3_call_header(PgosS3Call *call, const char *name, const char *value)
{
	Assert(call->nheaders < PGOS_S3_MAX_PARAMS);
	call->headers[call->nheaders].name = name;
	call->headers[call->nheaders++].value = value;
}

ResourceOwner
pgos_s3_borrow_resource_owner(void)
{
	static ResourceOwner own = NULL;
	ResourceOwner		 before = CurrentResourceOwner;

	if (before == NULL)
	{
		if (own == NULL)
			own = ResourceOwnerCreate(NULL, "pgobjstore s3");
		CurrentResourceOwner = own;
	}
	return before;
}

void
pgos_s3_call_body(PgosS3Call *call, const void *body, size_t len)
{
	ResourceOwner before = pgos_s3_borrow_resource_owner();
	bool		  ok;

	PG_TRY();
	{
		ok = pgos_sha256_hex(body, len, call->payload_hash);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = before;
	}
	PG_END_TRY();
	if (!ok)
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not compute SHA-256 hash")));
	call->body = body;
	call->body_len = len;
}

/* ---------------------------------------------------------------- an attempt */

static const char *
method_name(PgosHttpMethod method)
{
	switch (method)
	{
		case PGOS_HTTP_GET:
			return "GET";
		case PGOS_HTTP_HEAD:
			return "HEAD";
		case PGOS_HTTP_PUT:
			return "PUT";
		case PGOS_HTTP_POST:
			return "POST";
		case PGOS_HTTP_DELETE:
			return "DELETE";
	}
	pg_unreachable();
}

/* The signature's header lines and query string; NULL on success. */
static const char *
sign(PgosS3Call *call, const PgosSigv4Request *request, PgosSigv4Result *result)
{
	PgosS3		 *s3 = call->base.store->state;
	ResourceOwner before = pgos_s3_borrow_resource_owner();
	bool		  ok;

	PG_TRY();
	{
		ok = pgos_sigv4_sign(&pgos_sigv4_aws, &s3->credentials, request, &s3->signing_key, result);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = before;
	}
	PG_END_TRY();
	return ok ? NULL : result->error;
}

static const char *
prepare(void *arg, int attempt, PgosHttpRequest *request)
{
	PgosS3Call		*call = arg;
	PgosStore		*store = call->base.store;
	PgosS3			*s3 = store->state;
	PgosSigv4Request to_sign = {0};
	PgosSigv4Result	 signature = {0};
	PgosNameValue	 headers[PGOS_S3_MAX_PARAMS + 2];
	int				 nheaders = 0;
	char			 range[64];
	const char		*error;

	request->method = call->verifying ? PGOS_HTTP_HEAD : call->method;
	request->base_url = s3->base_url;
	request->ca_file = store->options.ca_file;
	request->connect_timeout = store->options.connect_timeout;
	request->request_timeout = store->options.request_timeout;
	request->hurry = store->hurry;
	request->body_max = call->body_max;

	if (!call->verifying)
	{
		memcpy(headers, call->headers, sizeof(call->headers));
		nheaders = call->nheaders;
		request->body = call->body;
		request->body_len = call->body_len;
	}
	if (call->dest != NULL)
	{
		snprintf(range, sizeof(range), "bytes=" INT64_FORMAT "-" INT64_FORMAT,
				 call->offset + (int64) call->dest_have, call->offset + (int64) call->dest_len - 1);
		headers[nheaders].name = "Range";
		headers[nheaders++].value = range;
		if (call->if_match[0] != '\0')
		{
			headers[nheaders].name = "If-Match";
			headers[nheaders++].value = call->if_match;
		}
		request->dest = (char *) call->dest + call->dest_have;
		request->dest_len = call->dest_len - call->dest_have;
		request->dest_takes_200 = call->offset == 0 && call->dest_have == 0;
	}

	to_sign.method = method_name(request->method);
	to_sign.host = s3->host;
	to_sign.path = call->path;
	to_sign.query = call->verifying ? NULL : call->query;
	to_sign.nquery = call->verifying ? 0 : call->nquery;
	to_sign.headers = headers;
	to_sign.nheaders = nheaders;
	to_sign.payload_hash = call->verifying ? PGOS_SIGV4_EMPTY : call->payload_hash;
	to_sign.region = store->options.region;
	to_sign.service = "s3";
	to_sign.time = (pg_time_t) time(NULL) + s3->clock_offset;
	error = sign(call, &to_sign, &signature);
	if (error != NULL)
		return error;

	request->target =
		signature.query[0] != '\0' ? psprintf("%s?%s", call->path, signature.query) : call->path;
	request->headers = palloc((nheaders + signature.nheaders + 1) * sizeof(char *));
	request->headers[request->nheaders++] = psprintf("Host: %s", s3->host);
	for (int i = 0; i < nheaders; i++)
		request->headers[request->nheaders++] =
			psprintf("%s: %s", headers[i].name, headers[i].value);
	for (int i = 0; i < signature.nheaders; i++)
		request->headers[request->nheaders++] = signature.headers[i];
	return NULL;
}

/* ---------------------------------------------------------------- its answer */

void
pgos_s3_info(const PgosHttpReply *reply, PgosObjectInfo *info)
{
	info->size = reply->content_length;
	strlcpy(info->etag, reply->etag, sizeof(info->etag));
	info->mtime = reply->last_modified;
}

PgosHttpVerdict
pgos_s3_call_verify(PgosS3Call *call)
{
	if (++call->verifications > MAX_VERIFICATIONS)
		return PGOS_HTTP_FAIL;
	call->verifying = true;
	call->refused = call->error.status != 0;
	return PGOS_HTTP_NEXT;
}

static PgosHttpVerdict
judge(void *arg, const PgosHttpReply *reply)
{
	PgosS3Call	   *call = arg;
	PgosS3		   *s3 = call->base.store->state;
	PgosHttpVerdict verdict = pgos_http_classify(reply);

	/* A store that has answered before is down for a moment, rather than named wrongly. */
	if (verdict == PGOS_HTTP_RETRY_BRIEFLY && s3->answered)
		verdict = PGOS_HTTP_RETRY;
	if (reply->status != 0)
		s3->answered = true;
	if (!call->verifying || !call->refused)
	{
		call->reason = NULL;
		call->sqlstate = 0;
		call->hint = NULL;
		if (reply->fault == PGOS_HTTP_FAULT_NONE && verdict != PGOS_HTTP_DONE)
			pgos_s3_error_read(call, reply, NULL);
		else
			forget_error(call);
	}
	call->ambiguous = reply->fault != PGOS_HTTP_FAULT_NONE || reply->status >= 500;

	if (call->decide != NULL)
	{
		PgosHttpVerdict decided;

		if (call->decide(call, reply, &decided))
			return decided;
		/* a success that means nothing here, 204 for a GET say: none of what was asked for is known */
		if (reply->fault == PGOS_HTTP_FAULT_NONE && verdict == PGOS_HTTP_DONE)
		{
			call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
			call->reason = MemoryContextStrdup(call->base.context,
											   psprintf("unexpected status %d", reply->status));
			call->ambiguous = true;
			return PGOS_HTTP_RETRY;
		}
	}
	if (reply->fault != PGOS_HTTP_FAULT_NONE || verdict == PGOS_HTTP_DONE)
		return verdict;

	if (reply->status == 404 && call->not_found_ok && strcmp(call->error.code, "NoSuchBucket") != 0)
	{
		call->not_found = true;
		return PGOS_HTTP_DONE;
	}
	if (strcmp(call->error.code, "RequestTimeTooSkewed") == 0 && !call->skew_corrected)
	{
		/* Signed too long ago, or one of the two clocks is wrong; the server's is the one that counts. */
		call->skew_corrected = true;
		if (reply->date != 0)
			s3->clock_offset = reply->date - (int64) time(NULL);
		return PGOS_HTTP_RETRY;
	}
	if (verdict == PGOS_HTTP_FAIL)
	{
		verdict = pgos_s3_error_classify(&call->error);
		if (verdict == PGOS_HTTP_DONE)
			verdict = PGOS_HTTP_FAIL;
	}
	return verdict;
}

static void
end(void *arg, bool success, const PgosHttpReply *reply, const PgosHttpTries *tries)
{
	PgosS3Call *call = arg;

	if (!success)
		pgos_s3_error_fail(call, reply, tries);
	pgos_request_set_done(&call->base);
}

static const PgosHttpOwner call_owner = {prepare, judge, end};

void
pgos_s3_call_start(PgosS3Call *call)
{
	call->op = pgos_http_start(call->base.context, &call_owner, call, &call->base.store->counters);
}

static bool
call_is_done(void *arg)
{
	return ((PgosS3Call *) arg)->base.done;
}

void
pgos_s3_call_run(PgosS3Call *call)
{
	pgos_s3_call_start(call);
	while (!call->base.done)
		pgos_http_drive(-1, call_is_done, call);
}

void
pgos_s3_call_run_or_raise(PgosS3Call *call)
{
	pgos_s3_call_run(call);
	if (call->base.failure.sqlstate != 0)
		pgos_request_finish(&call->base);
}
