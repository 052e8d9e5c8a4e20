/*
 * s3_error.c
 *		What went wrong with an S3 call, in PostgreSQL's terms: SQLSTATE, message, detail, hint, request id.
 *
 * Texts of the server go into the detail only: printable ASCII, bounded, and not at all if they contain a part
 * of a signature.  Everything is palloc'd in the call's context.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "store/s3_internal.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MAX_MESSAGE 300 /* of the store's own message */
#define MAX_SNIPPET 200 /* of a body that is not XML */

/* %s in a hint is the server's name, quoted. */
typedef struct ErrorDef
{
	const char	   *code;
	int				sqlstate;
	PgosHttpVerdict verdict; /* PGOS_HTTP_DONE: as the HTTP status says */
	const char	   *hint;
} ErrorDef;

#define HINT_CLOCK "Set the clock of this machine: signatures are valid for a few minutes only."
#define HINT_SECRET "Check secret_access_key in the user mapping for server %s."
#define HINT_KEY "Check access_key_id in the user mapping for server %s."
#define HINT_TOKEN                                                                          \
	"Set a valid session_token, with its access_key_id and secret_access_key, in the user " \
	"mapping for server %s."
#define HINT_DENIED                                                                           \
	"The store knows the credentials, but they do not allow this: check the policies of the " \
	"bucket and of the access key."
#define HINT_BUCKET "Create the bucket, or correct the option url of server %s."
#define HINT_GONE \
	"Somebody else, or a lifecycle rule of the bucket, removed the upload while it was under way."
#define HINT_BUSY                                                                                \
	"The store is overloaded: try again later, or set the option concurrency of server %s to a " \
	"smaller value."
#define HINT_FULL "Free space in the store, or raise its quota."

static const ErrorDef error_defs[] = {
	{"SignatureDoesNotMatch", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL,
	 HINT_SECRET},
	{"InvalidAccessKeyId", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL, HINT_KEY},
	{"InvalidSecurity", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL, HINT_KEY},
	{"ExpiredToken", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL, HINT_TOKEN},
	{"InvalidToken", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL, HINT_TOKEN},
	{"TokenRefreshRequired", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL,
	 HINT_TOKEN},
	{"RequestTimeTooSkewed", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL,
	 HINT_CLOCK},
	{"RequestExpired", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, PGOS_HTTP_FAIL, HINT_CLOCK},
	{"AccessDenied", ERRCODE_INSUFFICIENT_PRIVILEGE, PGOS_HTTP_FAIL, HINT_DENIED},
	{"AllAccessDisabled", ERRCODE_INSUFFICIENT_PRIVILEGE, PGOS_HTTP_FAIL, HINT_DENIED},
	{"AccountProblem", ERRCODE_INSUFFICIENT_PRIVILEGE, PGOS_HTTP_FAIL, NULL},
	{"NotSignedUp", ERRCODE_INSUFFICIENT_PRIVILEGE, PGOS_HTTP_FAIL, NULL},
	{"NoSuchBucket", ERRCODE_UNDEFINED_OBJECT, PGOS_HTTP_FAIL, HINT_BUCKET},
	{"InvalidBucketName", ERRCODE_INVALID_PARAMETER_VALUE, PGOS_HTTP_FAIL, HINT_BUCKET},
	{"NoSuchKey", ERRCODE_UNDEFINED_FILE, PGOS_HTTP_FAIL, NULL},
	{"InvalidObjectState", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, PGOS_HTTP_FAIL,
	 "The object is archived: restore it first."},
	{"NoSuchUpload", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, PGOS_HTTP_FAIL, HINT_GONE},
	{"InvalidPart", ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, PGOS_HTTP_FAIL, NULL},
	{"EntityTooLarge", ERRCODE_PROGRAM_LIMIT_EXCEEDED, PGOS_HTTP_FAIL, NULL},
	{"EntityTooSmall", ERRCODE_PROGRAM_LIMIT_EXCEEDED, PGOS_HTTP_FAIL,
	 "Set the option part_size of server %s to a larger value."},
	{"KeyTooLongError", ERRCODE_PROGRAM_LIMIT_EXCEEDED, PGOS_HTTP_FAIL, NULL},
	{"InvalidRange", ERRCODE_DATA_CORRUPTED, PGOS_HTTP_FAIL,
	 "The object is shorter than it was when it was written or listed."},
	{"NotImplemented", ERRCODE_FEATURE_NOT_SUPPORTED, PGOS_HTTP_FAIL, NULL},
	{"MethodNotAllowed", ERRCODE_FEATURE_NOT_SUPPORTED, PGOS_HTTP_FAIL, NULL},
	{"InsufficientCapacity", ERRCODE_DISK_FULL, PGOS_HTTP_FAIL, HINT_FULL},
	{"QuotaExceeded", ERRCODE_DISK_FULL, PGOS_HTTP_FAIL, HINT_FULL},
	{"XMinioStorageFull", ERRCODE_DISK_FULL, PGOS_HTTP_FAIL, HINT_FULL},

	/* Worth another attempt, whatever the status */
	{"SlowDown", ERRCODE_INSUFFICIENT_RESOURCES, PGOS_HTTP_RETRY, HINT_BUSY},
	{"TooManyRequests", ERRCODE_INSUFFICIENT_RESOURCES, PGOS_HTTP_RETRY, HINT_BUSY},
	{"ThrottlingException", ERRCODE_INSUFFICIENT_RESOURCES, PGOS_HTTP_RETRY, HINT_BUSY},
	{"ServiceUnavailable", ERRCODE_CONNECTION_FAILURE, PGOS_HTTP_RETRY, HINT_BUSY},
	{"InternalError", ERRCODE_CONNECTION_FAILURE, PGOS_HTTP_RETRY, NULL},
	{"RequestTimeout", ERRCODE_CONNECTION_FAILURE, PGOS_HTTP_RETRY, NULL},
	{"OperationAborted", ERRCODE_CONNECTION_FAILURE, PGOS_HTTP_RETRY, NULL},
	{"IncompleteBody", ERRCODE_CONNECTION_FAILURE, PGOS_HTTP_RETRY, NULL},
	{"BadDigest", ERRCODE_DATA_CORRUPTED, PGOS_HTTP_RETRY, NULL},
	{"XAmzContentSHA256Mismatch", ERRCODE_DATA_CORRUPTED, PGOS_HTTP_RETRY, NULL}};

static const ErrorDef *
find_error(const char *code)
{
	for (int i = 0; i < lengthof(error_defs); i++)
	{
		if (strcmp(error_defs[i].code, code) == 0)
			return &error_defs[i];
	}
	return NULL;
}

PgosHttpVerdict
pgos_s3_error_classify(const PgosS3Error *error)
{
	const ErrorDef *def = find_error(error->code);

	return def != NULL ? def->verdict : PGOS_HTTP_DONE;
}

/* ---------------------------------------------------------------- reading */

/* At most max characters of text, printable ASCII, white space folded; "" if a signature may be in it. */
static char *
clean_text(const PgosS3Call *call, const char *text, size_t max)
{
	static const char *const	forbidden[] = {"AWS4", "Signature=", "X-Amz-Security-Token"};
	const PgosSigv4Credentials *credentials = &((PgosS3 *) call->base.store->state)->credentials;
	StringInfoData				out;
	bool						blank = false;

	for (int i = 0; i < lengthof(forbidden); i++)
	{
		if (strstr(text, forbidden[i]) != NULL)
			return "";
	}
	if (strstr(text, credentials->secret_access_key) != NULL ||
		(credentials->session_token != NULL && strstr(text, credentials->session_token) != NULL))
		return "";

	initStringInfo(&out);
	for (const char *p = text; *p != '\0' && out.len < max; p++)
	{
		unsigned char c = (unsigned char) *p;

		if (c <= ' ')
		{
			blank = out.len > 0;
			continue;
		}
		if (blank)
			appendStringInfoChar(&out, ' ');
		blank = false;
		appendStringInfoChar(&out, c <= 0x7e ? (char) c : '?');
	}
	return out.data;
}

/* A word of the server's, such as a code or a region: kept only if it looks like one. */
static char *
clean_word(const char *text)
{
	size_t len = strlen(text);

	if (len > 64 ||
		strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != len)
		return "";
	return pstrdup(text);
}

void
pgos_s3_error_read(PgosS3Call *call, const PgosHttpReply *reply, const PgosXml *xml)
{
	PgosS3Error	 *error = &call->error;
	MemoryContext old = CurrentMemoryContext;

	if (xml == NULL)
		xml = pgos_xml_parse(reply->body, reply->body_len);

	MemoryContextSwitchTo(call->base.context);
	error->status = reply->status;
	error->code = error->message = "";
	error->request_id = clean_text(call, reply->request_id, 127);
	error->region = clean_word(reply->bucket_region);
	if (xml != NULL && strcmp(xml->name, "Error") == 0)
	{
		error->code = clean_word(pgos_xml_text(xml, "Code"));
		error->message = clean_text(call, pgos_xml_text(xml, "Message"), MAX_MESSAGE);
		if (error->request_id[0] == '\0')
			error->request_id = clean_text(call, pgos_xml_text(xml, "RequestId"), 127);
		if (error->region[0] == '\0')
			error->region = clean_word(pgos_xml_text(xml, "Region"));
	}
	else if (reply->body != NULL)
		error->message = clean_text(call, reply->body, MAX_SNIPPET);
	MemoryContextSwitchTo(old);
}

/* ---------------------------------------------------------------- failing */

static const char *
status_text(int status)
{
	switch (status)
	{
		case 301:
			return "Moved Permanently";
		case 302:
			return "Found";
		case 303:
			return "See Other";
		case 307:
			return "Temporary Redirect";
		case 308:
			return "Permanent Redirect";
		case 400:
			return "Bad Request";
		case 401:
			return "Unauthorized";
		case 403:
			return "Forbidden";
		case 404:
			return "Not Found";
		case 405:
			return "Method Not Allowed";
		case 408:
			return "Request Timeout";
		case 409:
			return "Conflict";
		case 412:
			return "Precondition Failed";
		case 413:
			return "Content Too Large";
		case 416:
			return "Range Not Satisfiable";
		case 429:
			return "Too Many Requests";
		case 500:
			return "Internal Server Error";
		case 501:
			return "Not Implemented";
		case 502:
			return "Bad Gateway";
		case 503:
			return "Service Unavailable";
		case 504:
			return "Gateway Timeout";
		case 507:
			return "Insufficient Storage";
		default:
			return "Unexpected HTTP Status";
	}
}

/* For an answer whose code says nothing. */
static int
sqlstate_of_status(int status)
{
	switch (status)
	{
		case 401:
			return ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
		case 403:
			return ERRCODE_INSUFFICIENT_PRIVILEGE;
		case 404:
			return ERRCODE_UNDEFINED_FILE;
		case 405:
		case 501:
			return ERRCODE_FEATURE_NOT_SUPPORTED;
		case 413:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		case 416:
			return ERRCODE_DATA_CORRUPTED;
		case 429:
			return ERRCODE_INSUFFICIENT_RESOURCES;
		case 507:
			return ERRCODE_DISK_FULL;
		default:
			return status >= 500 || status == 408 ? ERRCODE_CONNECTION_FAILURE : ERRCODE_FDW_ERROR;
	}
}

static char *
region_hint(PgosStore *store, const char *region)
{
	const char *server = quote_identifier(store->options.server_name);

	if (region[0] == '\0' || strcmp(region, store->options.region) == 0)
		return psprintf(
			"The bucket is served elsewhere: check the options region and endpoint of server %s.",
			server);
	return psprintf("The bucket is in region %s: ALTER SERVER %s OPTIONS (%s region '%s');", region,
					server, store->options.has_region ? "SET" : "ADD", region);
}

/* The answer was complete, and no success. */
static void
fail_by_answer(PgosS3Call *call, PgosFailure *failure, StringInfo reason)
{
	PgosStore		  *store = call->base.store;
	const PgosS3Error *error = &call->error;
	const ErrorDef	  *def = find_error(error->code);
	const char		  *server = quote_identifier(store->options.server_name);

	appendStringInfo(reason, "%d %s", error->status,
					 error->code[0] != '\0' ? error->code : status_text(error->status));
	failure->sqlstate = def != NULL ? def->sqlstate : sqlstate_of_status(error->status);
	if (def != NULL && def->hint != NULL)
		failure->hint = psprintf(def->hint, server);
	else if (error->status == 401 || error->status == 403)
		failure->hint = psprintf("Check the user mapping for server %s, and the policies of the "
								 "bucket and of the access key.",
								 server);

	if ((error->status >= 301 && error->status <= 308) ||
		strcmp(error->code, "AuthorizationHeaderMalformed") == 0 ||
		strcmp(error->code, "IllegalLocationConstraintException") == 0 ||
		(error->status == 400 && error->region[0] != '\0' &&
		 strcmp(error->region, store->options.region) != 0))
	{
		failure->sqlstate = ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE;
		failure->hint = region_hint(store, error->region);
	}
	else if (call->conditional && (error->status == 409 || error->status == 412) && def == NULL)
	{
		failure->sqlstate = ERRCODE_DUPLICATE_OBJECT;
		failure->hint = NULL;
		/* A conflict is with a request still under way: nothing exists yet. */
		if (strcmp(error->code, "ConditionalRequestConflict") != 0)
		{
			resetStringInfo(reason);
			appendStringInfoString(reason, "the object exists already");
		}
	}
	else if (call->dest != NULL && error->status == 412)
	{
		failure->sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		resetStringInfo(reason);
		appendStringInfoString(reason, "the object was replaced while it was being read");
		failure->hint = pstrdup("Run the job again to read the new object.");
	}
}

/* There was no complete answer. */
static void
fail_by_fault(PgosS3Call *call, const PgosHttpReply *reply, PgosFailure *failure, StringInfo reason)
{
	PgosStore  *store = call->base.store;
	PgosS3	   *s3 = store->state;
	const char *server = quote_identifier(store->options.server_name);

	failure->sqlstate = ERRCODE_CONNECTION_FAILURE;
	switch (reply->fault)
	{
		case PGOS_HTTP_FAULT_RESOLVE:
			appendStringInfo(reason, "could not resolve the host of %s", s3->endpoint);
			failure->sqlstate = ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			failure->hint = psprintf("Check the options endpoint and region of server %s, and the "
									 "name service of this machine.",
									 server);
			break;
		case PGOS_HTTP_FAULT_REFUSED:
			appendStringInfo(reason, "could not connect to %s: %s", s3->endpoint,
							 reply->fault_text);
			failure->sqlstate = ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			failure->hint = psprintf(
				"Check the option endpoint of server %s, and that the store is running there.",
				server);
			break;
		case PGOS_HTTP_FAULT_CONNECT_TIMEOUT:
			appendStringInfo(reason, "could not connect to %s within %g s", s3->endpoint,
							 store->options.connect_timeout / 1000.0);
			failure->sqlstate = ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			failure->hint = psprintf(
				"Check the option endpoint of server %s, and firewalls on the way.", server);
			break;
		case PGOS_HTTP_FAULT_TLS_TRUST:
			appendStringInfo(reason, "the TLS certificate of %s is not trusted", s3->endpoint);
			failure->sqlstate = ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			failure->hint = psprintf("Set the option ca_file of server %s to a file with the "
									 "certificate of the authority that signed it.",
									 server);
			break;
		case PGOS_HTTP_FAULT_TLS_CA_FILE:
			appendStringInfoString(reason, "could not load certificates from ca_file");
			failure->sqlstate = ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			failure->hint = psprintf("The option ca_file of server %s must name a file of PEM "
									 "certificates that the server process can read.",
									 server);
			break;
		case PGOS_HTTP_FAULT_TLS:
			appendStringInfo(reason, "TLS handshake with %s failed", s3->endpoint);
			failure->sqlstate = ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			failure->hint = psprintf("Check that the endpoint of server %s speaks https.", server);
			break;
		case PGOS_HTTP_FAULT_STALLED:
			appendStringInfo(reason, "no progress within %g s",
							 store->options.request_timeout / 1000.0);
			break;
		case PGOS_HTTP_FAULT_TOO_SLOW:
			appendStringInfoString(reason, "the transfer is too slow");
			break;
		case PGOS_HTTP_FAULT_BROKEN:
			appendStringInfo(reason, "connection to %s was closed before the answer was complete",
							 s3->endpoint);
			if (!s3->answered && !store->options.endpoint.tls)
				failure->hint = psprintf("If the store speaks https, the option endpoint of server "
										 "%s must begin with https://.",
										 server);
			break;
		case PGOS_HTTP_FAULT_MALFORMED:
			appendStringInfo(reason, "the answer of %s is malformed", s3->endpoint);
			failure->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
			failure->hint =
				psprintf("Check that the endpoint of server %s is an S3 store.", server);
			break;
		case PGOS_HTTP_FAULT_TOO_LARGE:
			appendStringInfoString(reason, "the answer is larger than it may be");
			failure->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
			break;
		case PGOS_HTTP_FAULT_NOT_SENT:
			appendStringInfoString(reason, "could not make the request");
			failure->sqlstate = ERRCODE_INTERNAL_ERROR;
			break;
		case PGOS_HTTP_FAULT_NONE:
		case PGOS_HTTP_FAULT_OTHER:
			appendStringInfoString(reason, "the request failed");
			break;
	}
}

static void
add_sentence(StringInfo detail, const char *sentence)
{
	size_t len = strlen(sentence);

	if (len == 0)
		return;
	appendStringInfo(detail, "%s%c%s%s", detail->len > 0 ? " " : "",
					 pg_toupper((unsigned char) sentence[0]), sentence + 1,
					 strchr(".!?", sentence[len - 1]) != NULL ? "" : ".");
}

void
pgos_s3_error_fail(PgosS3Call *call, const PgosHttpReply *reply, const PgosHttpTries *tries)
{
	PgosFailure	  *failure = &call->base.failure;
	PgosS3Error	  *error = &call->error;
	MemoryContext  old = MemoryContextSwitchTo(call->base.context);
	StringInfoData reason;
	StringInfoData detail;

	initStringInfo(&reason);
	initStringInfo(&detail);
	if (reply->fault != PGOS_HTTP_FAULT_NONE && call->reason == NULL)
		fail_by_fault(call, reply, failure, &reason);
	else if (error->status != 0)
		fail_by_answer(call, failure, &reason);

	if (call->reason != NULL)
	{
		resetStringInfo(&reason);
		appendStringInfoString(&reason, call->reason);
		failure->sqlstate = call->sqlstate;
		failure->hint = call->hint != NULL ? pstrdup(call->hint) : NULL;
	}
	if (failure->sqlstate == 0)
		failure->sqlstate = ERRCODE_FDW_ERROR;
	if (reason.len == 0)
		appendStringInfoString(&reason, "the request failed");

	failure->message = psprintf("could not %s server \"%s\": %s", call->action,
								call->base.store->options.server_name, reason.data);
	if (reply->fault != PGOS_HTTP_FAULT_NONE)
	{
		/* Of these the message says it all. */
		if (reply->fault != PGOS_HTTP_FAULT_REFUSED && reply->fault != PGOS_HTTP_FAULT_STALLED &&
			reply->fault != PGOS_HTTP_FAULT_TOO_LARGE)
			add_sentence(&detail, reply->fault_text);
	}
	else
		add_sentence(&detail, error->message);
	if (reply->fault == PGOS_HTTP_FAULT_NONE && error->status == 0)
		error->request_id = pstrdup(reply->request_id);
	if (error->request_id[0] != '\0')
	{
		failure->request_id = error->request_id;
		add_sentence(&detail, psprintf("Request id: %s", error->request_id));
	}
	if (tries->attempts > 1)
		add_sentence(&detail, psprintf("Gave up after %d attempts in %.1f s", tries->attempts,
									   tries->elapsed_ms / 1000.0));
	failure->detail = detail.len > 0 ? detail.data : NULL;
	MemoryContextSwitchTo(old);
}
