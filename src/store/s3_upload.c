/*
 * s3_upload.c
 *		Multipart uploads to S3.
 *
 * The parts' ETags are kept with the upload (in its context) until it is completed.  Every upload carries a
 * random token as metadata, so that a HEAD can tell, after a lost or doubtful answer to the completion, whether
 * the object at the key is the one just uploaded.
 */
#include "postgres.h"

#include <ctype.h>

#include "common/md5.h"
#include "lib/stringinfo.h"
#include "store/s3_internal.h"
#include "utils/memutils.h"

#define MD5_HEX_LENGTH 32

typedef struct S3Upload
{
	PgosUpload base;
	char	  *token;
	char	 **etags; /* of part i + 1; NULL while it is not uploaded */
	int		   etags_size;
	int64	   begun; /* the server's clock when it was created; 0: unknown */
} S3Upload;

/* ---------------------------------------------------------------- begin */

typedef struct BeginResult
{
	char *id; /* in the call's context */
	int64 date;
} BeginResult;

static bool
decide_begin(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	BeginResult *result = call->arg;
	PgosXml		*xml;

	if (reply->fault != PGOS_HTTP_FAULT_NONE || reply->status < 200 || reply->status > 299)
		return false;
	xml = pgos_xml_parse(reply->body, reply->body_len);
	if (xml == NULL || strcmp(xml->name, "InitiateMultipartUploadResult") != 0 ||
		pgos_xml_text(xml, "UploadId")[0] == '\0')
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason = "the answer holds no upload id";
		/* Each attempt may leave an open upload behind: few of them. */
		*verdict = PGOS_HTTP_RETRY_BRIEFLY;
		return true;
	}
	result->id = MemoryContextStrdup(call->base.context, pgos_xml_text(xml, "UploadId"));
	result->date = reply->date;
	*verdict = PGOS_HTTP_DONE;
	return true;
}

PgosUpload *
pgos_s3_upload_begin(PgosStore *store, const char *key)
{
	PgosS3Call *call = pgos_s3_call_create(store, PGOS_HTTP_POST, key, "begin upload of \"%s\" to");
	S3Upload   *upload = (S3Upload *) pgos_upload_create(store, key, sizeof(S3Upload));
	BeginResult result = {NULL, 0};

	upload->token = pgos_s3_token(upload->base.context);
	pgos_s3_call_query(call, "uploads", "");
	pgos_s3_call_header(call, "Content-Type", "application/octet-stream");
	pgos_s3_call_header(call, PGOS_S3_TOKEN_HEADER, upload->token);
	call->arg = &result;
	call->decide = decide_begin;
	pgos_s3_call_run_or_raise(call);

	upload->base.id = MemoryContextStrdup(upload->base.context, result.id);
	upload->begun = result.date;
	pgos_request_cancel(&call->base);
	return &upload->base;
}

/* ---------------------------------------------------------------- parts */

typedef struct PartArg
{
	S3Upload *upload;
	int		  part_no;
} PartArg;

static bool
decide_part(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	PartArg *part = call->arg;

	if (reply->fault != PGOS_HTTP_FAULT_NONE || reply->status < 200 || reply->status > 299)
		return false;
	if (reply->etag[0] == '\0')
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason = "the answer holds no ETag";
		*verdict = PGOS_HTTP_RETRY;
		return true;
	}
	part->upload->etags[part->part_no - 1] =
		MemoryContextStrdup(part->upload->base.context, reply->etag);
	*verdict = PGOS_HTTP_DONE;
	return true;
}

static void
make_room(S3Upload *upload, int nparts)
{
	int	   size = Max(upload->etags_size * 2, 16);
	char **etags;

	if (nparts <= upload->etags_size)
		return;
	while (size < nparts)
		size *= 2;
	etags = MemoryContextAllocZero(upload->base.context, size * sizeof(char *));
	if (upload->etags_size > 0)
	{
		memcpy(etags, upload->etags, upload->etags_size * sizeof(char *));
		pfree(upload->etags);
	}
	upload->etags = etags;
	upload->etags_size = size;
}

PgosRequest *
pgos_s3_upload_part_start(PgosUpload *base, int part_no, const void *data, size_t len)
{
	S3Upload   *upload = (S3Upload *) base;
	char		action[64];
	PgosS3Call *call;
	PartArg	   *part;

	snprintf(action, sizeof(action), "upload part %d of \"%%s\" to", part_no);
	call = pgos_s3_call_create(base->store, PGOS_HTTP_PUT, base->key, action);
	part = MemoryContextAlloc(call->base.context, sizeof(PartArg));
	part->upload = upload;
	part->part_no = part_no;
	make_room(upload, part_no);

	pgos_s3_call_query(call, "partNumber",
					   MemoryContextStrdup(call->base.context, psprintf("%d", part_no)));
	pgos_s3_call_query(call, "uploadId", base->id);
	pgos_s3_call_body(call, data, len);
	call->arg = part;
	call->decide = decide_part;
	pgos_s3_call_start(call);
	return &call->base;
}

/* ---------------------------------------------------------------- completion */

typedef struct CompleteArg
{
	S3Upload *upload;
	int64	  total_size;
	char	 *expected_md5; /* hex, of the parts' MD5s; NULL when their ETags are no MD5s */
} CompleteArg;

/* The 32 hex digits of an ETag with or without quotes; false if it does not begin so. */
static bool
etag_digits(const char *etag, char digits[MD5_HEX_LENGTH + 1], const char **rest)
{
	if (*etag == '"')
		etag++;
	for (int i = 0; i < MD5_HEX_LENGTH; i++)
	{
		if (!isxdigit((unsigned char) etag[i]))
			return false;
		digits[i] = (char) tolower((unsigned char) etag[i]);
	}
	digits[MD5_HEX_LENGTH] = '\0';
	*rest = etag + MD5_HEX_LENGTH;
	return true;
}

static int
hex_value(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/*
 * S3's ETag of a multipart object: the MD5 of the concatenated MD5s of its parts.  NULL when the parts' ETags
 * are something else, or MD5 is not to be had.
 */
static char *
expected_md5(S3Upload *upload)
{
	uint8	   *md5s = palloc(upload->base.nparts * MD5_DIGEST_LENGTH);
	char		hex[MD5_HEX_LENGTH + 1];
	const char *error = NULL;
	bool		ok = true;

	for (int i = 0; ok && i < upload->base.nparts; i++)
	{
		const char *rest;

		ok = etag_digits(upload->etags[i], hex, &rest) && (*rest == '\0' || *rest == '"');
		for (int j = 0; ok && j < MD5_DIGEST_LENGTH; j++)
			md5s[i * MD5_DIGEST_LENGTH + j] =
				(hex_value(hex[2 * j]) << 4) | hex_value(hex[2 * j + 1]);
	}
	if (ok)
	{
		ResourceOwner before = pgos_s3_borrow_resource_owner();

		ok = pg_md5_hash(md5s, upload->base.nparts * MD5_DIGEST_LENGTH, hex, &error);
		CurrentResourceOwner = before;
	}
	pfree(md5s);
	return ok ? pstrdup(hex) : NULL;
}

/*
 * Is the object that HEAD shows the one just uploaded?  The token settles it.  A store that loses metadata is
 * asked for size and multipart ETag (MD5 of the parts, if they are MD5s, and their count), and if its ETags
 * are of another kind, for size and time.
 */
static bool
is_ours(const CompleteArg *arg, const PgosHttpReply *reply)
{
	char		digits[MD5_HEX_LENGTH + 1];
	const char *rest;

	if (reply->content_length != arg->total_size)
		return false;
	if (reply->upload_token[0] != '\0')
		return strcmp(reply->upload_token, arg->upload->token) == 0;
	if (etag_digits(reply->etag, digits, &rest) && *rest == '-')
		return strtol(rest + 1, NULL, 10) == arg->upload->base.nparts &&
			   (arg->expected_md5 == NULL || strcmp(arg->expected_md5, digits) == 0);
	return arg->upload->begun != 0 && reply->last_modified >= arg->upload->begun;
}

static bool
decide_verify(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	CompleteArg *arg = call->arg;
	bool		 found = reply->status == 200;

	if (reply->fault != PGOS_HTTP_FAULT_NONE || (!found && reply->status != 404))
		return false;

	if (found && is_ours(arg, reply))
	{
		if (call->info != NULL)
			pgos_s3_info(reply, call->info);
		*verdict = PGOS_HTTP_DONE;
		return true;
	}
	*verdict = PGOS_HTTP_FAIL;
	if (!found && call->refused && call->error.status == 409)
	{
		/* Refused because of somebody else's attempt, which has failed: ours may succeed. */
		call->verifying = false;
		*verdict = PGOS_HTTP_RETRY;
	}
	else if (!call->refused)
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason =
			found ? "the store answered without an ETag, and the object at the key is another one"
				  : "the store answered without an ETag, and the object is not there";
	}
	return true;
}

static bool
decide_complete(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	CompleteArg *arg = call->arg;
	PgosXml		*xml;
	const char	*etag;

	if (call->verifying)
		return decide_verify(call, reply, verdict);
	if (reply->fault != PGOS_HTTP_FAULT_NONE)
		return false;

	/*
	 * Gone or existing: perhaps by an attempt of ours whose answer was lost, also by one that libcurl
	 * repeated on a new connection.
	 */
	if ((reply->status == 404 && strcmp(call->error.code, "NoSuchBucket") != 0) ||
		(call->conditional && (reply->status == 409 || reply->status == 412)))
	{
		*verdict = pgos_s3_call_verify(call);
		return true;
	}
	if (reply->status != 200)
		return false;

	xml = pgos_xml_parse(reply->body, reply->body_len);
	if (xml != NULL && strcmp(xml->name, "Error") == 0)
	{
		/* The status line went out before the store knew. */
		pgos_s3_error_read(call, reply, xml);
		*verdict = PGOS_HTTP_RETRY;
		return true;
	}
	if (xml == NULL || strcmp(xml->name, "CompleteMultipartUploadResult") != 0)
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason = "the answer does not say that the upload is complete";
		call->ambiguous = true;
		*verdict = PGOS_HTTP_RETRY;
		return true;
	}
	etag = pgos_xml_text(xml, "ETag");
	if (etag[0] == '\0')
	{
		*verdict = pgos_s3_call_verify(call);
		return true;
	}
	if (call->info != NULL)
	{
		call->info->size = arg->total_size;
		snprintf(call->info->etag, sizeof(call->info->etag), etag[0] == '"' ? "%s" : "\"%s\"",
				 etag);
		call->info->mtime = reply->date;
	}
	*verdict = PGOS_HTTP_DONE;
	return true;
}

static void
append_xml_text(StringInfo out, const char *text)
{
	for (; *text != '\0'; text++)
	{
		switch (*text)
		{
			case '&':
				appendStringInfoString(out, "&amp;");
				break;
			case '<':
				appendStringInfoString(out, "&lt;");
				break;
			case '>':
				appendStringInfoString(out, "&gt;");
				break;
			default:
				appendStringInfoChar(out, *text);
		}
	}
}

static PgosS3Call *
make_complete_call(S3Upload *upload, CompleteArg *arg, PgosPutCondition condition)
{
	PgosUpload *base = &upload->base;
	PgosS3Call *call =
		pgos_s3_call_create(base->store, PGOS_HTTP_POST, base->key, "complete upload of \"%s\" to");
	MemoryContext  old = MemoryContextSwitchTo(call->base.context);
	StringInfoData body;

	initStringInfo(&body);
	appendStringInfoString(
		&body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (int i = 0; i < base->nparts; i++)
	{
		appendStringInfo(&body, "<Part><PartNumber>%d</PartNumber><ETag>", i + 1);
		append_xml_text(&body, upload->etags[i]);
		appendStringInfoString(&body, "</ETag></Part>");
	}
	appendStringInfoString(&body, "</CompleteMultipartUpload>");
	MemoryContextSwitchTo(old);

	pgos_s3_call_query(call, "uploadId", base->id);
	pgos_s3_call_header(call, "Content-Type", "application/xml");
	if (condition == PGOS_PUT_IF_ABSENT)
	{
		call->conditional = true;
		pgos_s3_call_header(call, "If-None-Match", "*");
	}
	pgos_s3_call_body(call, body.data, body.len);
	call->arg = arg;
	call->decide = decide_complete;
	return call;
}

/*
 * The last chance after a completion that failed without a clear answer: the object itself.
 */
static bool
object_is_there(S3Upload *upload, CompleteArg *arg, PgosObjectInfo *info)
{
	PgosS3Call *call = pgos_s3_call_create(upload->base.store, PGOS_HTTP_HEAD, upload->base.key,
										   "look at \"%s\" on");
	bool		there;

	call->info = info;
	call->arg = arg;
	call->decide = decide_verify;
	pgos_s3_call_run(call);
	there = call->base.failure.sqlstate == 0;
	pgos_request_cancel(&call->base);
	return there;
}

static void
raise_exists(S3Upload *upload)
{
	PgosStore *store = upload->base.store;
	char	  *object = psprintf("%s/%s%s", store->options.url.bucket,
								 ((PgosS3 *) store->state)->key_prefix, upload->base.key);

	ereport(
		ERROR,
		(errcode(ERRCODE_DUPLICATE_OBJECT),
		 errmsg("could not complete upload of \"%s\" to server \"%s\": the object exists already",
				pgos_display_text(object), store->options.server_name)));
}

void
pgos_s3_upload_complete(PgosUpload *base, int64 total_size, PgosPutCondition condition,
						PgosObjectInfo *info)
{
	S3Upload   *upload = (S3Upload *) base;
	CompleteArg arg = {upload, total_size, NULL};
	PgosS3Call *call;

	for (int i = 0; i < base->nparts; i++)
	{
		if (upload->etags[i] == NULL)
			elog(ERROR, "part %d of \"%s\" was not uploaded", i + 1, pgos_display_text(base->key));
	}
	if (base->nparts == 0)
		elog(ERROR, "upload of \"%s\" has no parts", pgos_display_text(base->key));

	/* Not every store looks at If-None-Match here; this one narrows the gap to the completion itself. */
	if (condition == PGOS_PUT_IF_ABSENT && pgos_s3_head(base->store, base->key, NULL))
		raise_exists(upload);

	arg.expected_md5 = expected_md5(upload);
	call = make_complete_call(upload, &arg, condition);
	call->info = info;
	pgos_s3_call_run(call);
	if (call->base.failure.sqlstate != 0 && call->ambiguous && object_is_there(upload, &arg, info))
		call->base.failure.sqlstate = 0;
	pgos_request_finish(&call->base);
}

/* ---------------------------------------------------------------- abort */

bool
pgos_s3_abort(PgosStore *store, const char *key, const char *upload_id)
{
	PgosS3Call *call =
		pgos_s3_call_create(store, PGOS_HTTP_DELETE, key, "abort upload of \"%s\" to");
	bool found;

	pgos_s3_call_query(call, "uploadId", upload_id);
	call->not_found_ok = true;
	pgos_s3_call_run_or_raise(call);
	found = !call->not_found;
	pgos_request_cancel(&call->base);
	return found;
}

void
pgos_s3_upload_abort(PgosUpload *upload)
{
	(void) pgos_s3_abort(upload->store, upload->key, upload->id);
}
