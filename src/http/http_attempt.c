/*
 * http_attempt.c
 *		One attempt of a request: libcurl's options, its callbacks, the reply.
 *
 * The callbacks only record into the attempt: no palloc, no ereport, nothing that could unwind through
 * libcurl.  Memory that grows in them is malloc'd, bounded by the request's body_max, and freed by
 * pgos_attempt_clear().
 *
 * Runs wherever http.c does.  Only pgos_attempt_begin() raises.
 */
#include "postgres.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "core/backoff.h"
#include "http/http_internal.h"

/* Bodies from this size on get libcurl's large send buffer: with the small one the socket runs dry. */
#define LARGE_BODY (64 * 1024)
#define LARGE_SEND_BUFFER (1024 * 1024)
#define SMALL_SEND_BUFFER (64 * 1024)
#define LARGE_RECV_BUFFER (512 * 1024)
#define SMALL_RECV_BUFFER (32 * 1024)
/* First size of a body in memory. */
#define BODY_MIN 4096

/* ---------------------------------------------------------------- callbacks of libcurl */

/* CURLOPT_READFUNCTION: the next bytes of the request's body. */
static size_t
read_callback(char *buffer, size_t size, size_t nitems, void *arg)
{
	PgosHttpAttempt *attempt = arg;
	size_t			 left = attempt->request.body_len - attempt->body_sent;
	size_t			 n = Min(size * nitems, left);

	if (n > 0)
		memcpy(buffer, (const char *) attempt->request.body + attempt->body_sent, n);
	attempt->body_sent += n;
	return n;
}

/* CURLOPT_SEEKFUNCTION: libcurl sends the body again when a kept connection turned out to be closed. */
static int
seek_callback(void *arg, curl_off_t offset, int origin)
{
	PgosHttpAttempt *attempt = arg;

	if (origin != SEEK_SET || offset < 0 || offset > (curl_off_t) attempt->request.body_len)
		return CURL_SEEKFUNC_CANTSEEK;
	attempt->body_sent = (size_t) offset;
	return CURL_SEEKFUNC_OK;
}

/* CURLOPT_WRITEFUNCTION: the next bytes of the answer's body. */
static size_t
write_callback(char *data, size_t size, size_t nitems, void *arg)
{
	PgosHttpAttempt *attempt = arg;
	PgosHttpReply	*reply = &attempt->reply;
	size_t			 n = size * nitems;

	if (!attempt->body_began)
	{
		long status = 0;

		(void) curl_easy_getinfo(attempt->easy, CURLINFO_RESPONSE_CODE, &status);
		attempt->to_dest = attempt->request.dest != NULL &&
						   (status == 206 || (status == 200 && attempt->request.dest_takes_200));
		attempt->body_began = true;
	}

	if (attempt->to_dest)
	{
		if (n > attempt->request.dest_len - reply->dest_filled)
		{
			attempt->overflow = true;
			return 0;
		}
		memcpy((char *) attempt->request.dest + reply->dest_filled, data, n);
		reply->dest_filled += n;
		return n;
	}

	if (n > attempt->request.body_max - reply->body_len)
	{
		attempt->overflow = true;
		return 0;
	}
	if (reply->body_len + n + 1 > attempt->body_size)
	{
		size_t size_wanted = Max(attempt->body_size * 2, BODY_MIN);
		char  *grown;

		while (size_wanted < reply->body_len + n + 1)
			size_wanted *= 2;
		size_wanted = Min(size_wanted, attempt->request.body_max + 1);
		grown = realloc(reply->body, size_wanted);
		if (grown == NULL)
		{
			attempt->no_memory = true;
			return 0;
		}
		reply->body = grown;
		attempt->body_size = size_wanted;
	}
	memcpy(reply->body + reply->body_len, data, n);
	reply->body_len += n;
	reply->body[reply->body_len] = '\0';
	return n;
}

/* Copies a header's value if it fits; one that does not is as good as none. */
static void
keep_value(char *dst, size_t dst_size, const char *value, size_t len)
{
	if (len >= dst_size)
		len = 0;
	memcpy(dst, value, len);
	dst[len] = '\0';
}

/* A decimal number that fills the text; -1 for anything else. */
static int64
parse_number(const char *text, const char **end)
{
	int64		n = 0;
	const char *p = text;

	while (*p >= '0' && *p <= '9')
	{
		if (n > (PG_INT64_MAX - 9) / 10)
			return -1;
		n = n * 10 + (*p++ - '0');
	}
	if (end != NULL)
		*end = p;
	return p == text || (end == NULL && *p != '\0') ? -1 : n;
}

/* "bytes 0-99/1234" */
static void
parse_content_range(const char *value, PgosHttpReply *reply)
{
	const char *p;

	if (pg_strncasecmp(value, "bytes ", 6) != 0)
		return;
	reply->range_start = parse_number(value + 6, &p);
	if (reply->range_start < 0 || *p != '-' || parse_number(p + 1, &p) < 0 || *p != '/')
	{
		reply->range_start = -1;
		return;
	}
	reply->range_total = parse_number(p + 1, NULL);
}

/* What is remembered of an answer before its first header line. */
static void
reset_headers(PgosHttpReply *reply)
{
	reply->content_length = -1;
	reply->range_start = -1;
	reply->range_total = -1;
	reply->date = 0;
	reply->last_modified = 0;
	reply->retry_after = PGOS_NO_RETRY_AFTER;
	reply->etag[0] = '\0';
	reply->request_id[0] = '\0';
	reply->host_id[0] = '\0';
	reply->bucket_region[0] = '\0';
	reply->upload_token[0] = '\0';
	reply->location[0] = '\0';
}

static int64
parse_date(const char *value)
{
	time_t t = curl_getdate(value, NULL);

	return t > 0 ? (int64) t : 0;
}

/* More than three digits in a status line?  Newer versions of libcurl take the first three for the status. */
static bool
status_is_long(const char *line, size_t n)
{
	const char *digit = memchr(line, ' ', n);
	int			ndigits = 0;

	if (digit == NULL)
		return false;
	while (++digit < line + n && *digit >= '0' && *digit <= '9')
		ndigits++;
	return ndigits > 3;
}

/* CURLOPT_HEADERFUNCTION: one header line, not terminated. */
static size_t
header_callback(char *data, size_t size, size_t nitems, void *arg)
{
	PgosHttpAttempt *attempt = arg;
	PgosHttpReply	*reply = &attempt->reply;
	size_t			 n = size * nitems;
	const char		*colon;
	const char		*value;
	size_t			 name_len;
	size_t			 len;
	char			 text[128];

#define IS(word) (name_len == sizeof(word) - 1 && pg_strncasecmp(data, word, name_len) == 0)
#define KEEP(field) keep_value(reply->field, sizeof(reply->field), value, len)

	/* A status line: an interim answer (100) may have come before. */
	if (n >= 5 && pg_strncasecmp(data, "HTTP/", 5) == 0)
	{
		reset_headers(reply);
		attempt->bad_status = status_is_long(data, n);
		return attempt->bad_status ? 0 : n;
	}
	colon = memchr(data, ':', n);
	if (colon == NULL)
		return n;
	name_len = colon - data;
	value = colon + 1;
	len = n - name_len - 1;
	while (len > 0 && (*value == ' ' || *value == '\t'))
	{
		value++;
		len--;
	}
	while (len > 0 && (value[len - 1] == '\r' || value[len - 1] == '\n' || value[len - 1] == ' ' ||
					   value[len - 1] == '\t'))
		len--;
	/* Values end up in messages and in requests: a byte that is no plain text makes them useless. */
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) value[i] < 0x20 || (unsigned char) value[i] > 0x7e)
			return n;
	}
	keep_value(text, sizeof(text), value, len);

	if (IS("etag"))
		KEEP(etag);
	else if (IS("content-length"))
		reply->content_length = parse_number(text, NULL);
	else if (IS("content-range"))
		parse_content_range(text, reply);
	else if (IS("date"))
		reply->date = parse_date(text);
	else if (IS("last-modified"))
		reply->last_modified = parse_date(text);
	else if (IS("retry-after"))
		reply->retry_after = pgos_backoff_parse_retry_after(text);
	else if (IS("x-amz-request-id"))
		KEEP(request_id);
	else if (IS("x-amz-id-2"))
		KEEP(host_id);
	else if (IS("x-amz-bucket-region"))
		KEEP(bucket_region);
	else if (IS("x-amz-meta-pgobjstore-upload"))
		KEEP(upload_token);
	else if (IS("location"))
		KEEP(location);
	return n;

#undef IS
#undef KEEP
}

/* ---------------------------------------------------------------- an attempt's life */

static void
setopt_failed(const char *option, CURLcode code)
{
	ereport(ERROR,
			(errcode(code == CURLE_OUT_OF_MEMORY ? ERRCODE_OUT_OF_MEMORY : ERRCODE_INTERNAL_ERROR),
			 errmsg("could not set libcurl option %s: %s", option, curl_easy_strerror(code))));
}

#define SETOPT(option, value)                                                   \
	do                                                                          \
	{                                                                           \
		CURLcode setopt_code_ = curl_easy_setopt(attempt->easy, option, value); \
		if (setopt_code_ != CURLE_OK)                                           \
			setopt_failed(#option, setopt_code_);                               \
	} while (0)

/* An option that the linked libcurl may have been built without. */
#define SETOPT_IF_KNOWN(option, value)                                          \
	do                                                                          \
	{                                                                           \
		CURLcode setopt_code_ = curl_easy_setopt(attempt->easy, option, value); \
		if (setopt_code_ != CURLE_OK && setopt_code_ != CURLE_UNKNOWN_OPTION && \
			setopt_code_ != CURLE_NOT_BUILT_IN)                                 \
			setopt_failed(#option, setopt_code_);                               \
	} while (0)

static void
add_header(PgosHttpAttempt *attempt, const char *line)
{
	struct curl_slist *longer = curl_slist_append(attempt->headers, line);

	if (longer == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	attempt->headers = longer;
}

static void
set_common_options(PgosHttpAttempt *attempt, void *private)
{
	PgosHttpRequest *request = &attempt->request;

	SETOPT(CURLOPT_PRIVATE, private);
	SETOPT(CURLOPT_ERRORBUFFER, attempt->error);
	SETOPT(CURLOPT_NOSIGNAL, 1L);
	SETOPT(CURLOPT_NOPROGRESS, 1L);

	/* Where to, and nothing but what the caller said: no proxy, no netrc, no redirect, no cookie. */
	SETOPT(CURLOPT_URL, request->base_url);
	SETOPT(CURLOPT_REQUEST_TARGET, request->target);
	SETOPT(CURLOPT_PATH_AS_IS, 1L);
	SETOPT(CURLOPT_PROXY, "");
	SETOPT_IF_KNOWN(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	SETOPT(CURLOPT_FOLLOWLOCATION, 0L);
	SETOPT(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
#if LIBCURL_VERSION_NUM >= 0x075500
	SETOPT(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SETOPT(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	SETOPT(CURLOPT_TCP_NODELAY, 1L);
	SETOPT(CURLOPT_CONNECTTIMEOUT_MS, (long) request->connect_timeout);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* An abort must not wait for a name lookup under way. */
	SETOPT_IF_KNOWN(CURLOPT_QUICK_EXIT, 1L);
#endif

	SETOPT(CURLOPT_SSL_VERIFYPEER, 1L);
	SETOPT(CURLOPT_SSL_VERIFYHOST, 2L);
	SETOPT(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
	if (request->ca_file != NULL)
	{
		SETOPT(CURLOPT_CAINFO, request->ca_file);
		SETOPT_IF_KNOWN(CURLOPT_CAPATH, NULL);
	}
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A renewed ca_file is noticed within minutes, without reading it for every connection. */
	SETOPT_IF_KNOWN(CURLOPT_CA_CACHE_TIMEOUT, 300L);
#endif

	SETOPT(CURLOPT_HEADERFUNCTION, header_callback);
	SETOPT(CURLOPT_HEADERDATA, attempt);
	SETOPT(CURLOPT_WRITEFUNCTION, write_callback);
	SETOPT(CURLOPT_WRITEDATA, attempt);
	SETOPT(CURLOPT_BUFFERSIZE,
		   request->dest_len >= LARGE_BODY ? (long) LARGE_RECV_BUFFER : (long) SMALL_RECV_BUFFER);
}

static void
set_method_options(PgosHttpAttempt *attempt)
{
	PgosHttpRequest *request = &attempt->request;

	switch (request->method)
	{
		case PGOS_HTTP_GET:
			SETOPT(CURLOPT_HTTPGET, 1L);
			break;
		case PGOS_HTTP_HEAD:
			SETOPT(CURLOPT_NOBODY, 1L);
			break;
		case PGOS_HTTP_DELETE:
			SETOPT(CURLOPT_CUSTOMREQUEST, "DELETE");
			break;
		case PGOS_HTTP_POST:
			/* An upload with another name: the body comes from memory without a copy. */
			SETOPT(CURLOPT_CUSTOMREQUEST, "POST");
			/* fall through */
		case PGOS_HTTP_PUT:
			SETOPT(CURLOPT_UPLOAD, 1L);
			SETOPT(CURLOPT_READFUNCTION, read_callback);
			SETOPT(CURLOPT_READDATA, attempt);
			SETOPT(CURLOPT_SEEKFUNCTION, seek_callback);
			SETOPT(CURLOPT_SEEKDATA, attempt);
			SETOPT(CURLOPT_INFILESIZE_LARGE, (curl_off_t) request->body_len);
			SETOPT(CURLOPT_UPLOAD_BUFFERSIZE, request->body_len >= LARGE_BODY
												  ? (long) LARGE_SEND_BUFFER
												  : (long) SMALL_SEND_BUFFER);
			break;
	}
}

void
pgos_attempt_begin(PgosHttpAttempt *attempt, void *private)
{
	PgosHttpRequest *request = &attempt->request;
	CURLMcode		 code;

	attempt->easy = pgos_multi_easy_get();
	reset_headers(&attempt->reply);
	set_common_options(attempt, private);
	set_method_options(attempt);
	for (int i = 0; i < request->nheaders; i++)
		add_header(attempt, request->headers[i]);
	/* No round trip to ask whether the body is welcome; no headers of libcurl's own choice. */
	add_header(attempt, "Expect:");
	add_header(attempt, "Accept: */*");
	SETOPT(CURLOPT_HTTPHEADER, attempt->headers);

	attempt->began = attempt->progress_at = pgos_http_now();
	code = pgos_multi_add(attempt->easy);
	if (code != CURLM_OK)
		ereport(ERROR, (errcode(code == CURLM_OUT_OF_MEMORY ? ERRCODE_OUT_OF_MEMORY
															: ERRCODE_INTERNAL_ERROR),
						errmsg("could not start HTTP request: %s", curl_multi_strerror(code))));
	attempt->in_multi = true;
}

static void
release_easy(PgosHttpAttempt *attempt, bool ended_well)
{
	if (attempt->easy != NULL)
	{
		if (attempt->in_multi)
			pgos_multi_remove(attempt->easy);
		attempt->in_multi = false;
		pgos_multi_easy_put(attempt->easy, ended_well);
		attempt->easy = NULL;
	}
	curl_slist_free_all(attempt->headers);
	attempt->headers = NULL;
}

void
pgos_attempt_clear(PgosHttpAttempt *attempt)
{
	release_easy(attempt, false);
	free(attempt->reply.body);
	memset(attempt, 0, sizeof(*attempt));
}

/* Which fault libcurl's code is. */
static PgosHttpFault
fault_of_code(PgosHttpAttempt *attempt, CURLcode code)
{
	curl_off_t connected = 0;

	switch (code)
	{
		case CURLE_OK:
			return PGOS_HTTP_FAULT_NONE;
		case CURLE_COULDNT_RESOLVE_HOST:
			return PGOS_HTTP_FAULT_RESOLVE;
		case CURLE_COULDNT_CONNECT:
			return PGOS_HTTP_FAULT_REFUSED;
		case CURLE_OPERATION_TIMEDOUT:
			/*
			 * The only time limit that libcurl is given is the one for connecting.  (8.22 sets the
			 * times of later phases even if none was reached.)
			 */
			(void) curl_easy_getinfo(attempt->easy, CURLINFO_CONNECT_TIME_T, &connected);
			return connected == 0 ? PGOS_HTTP_FAULT_CONNECT_TIMEOUT : PGOS_HTTP_FAULT_STALLED;
		case CURLE_PEER_FAILED_VERIFICATION:
			return PGOS_HTTP_FAULT_TLS_TRUST;
		case CURLE_SSL_CACERT_BADFILE:
			return PGOS_HTTP_FAULT_TLS_CA_FILE;
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_SSL_ENGINE_NOTFOUND:
		case CURLE_SSL_ENGINE_SETFAILED:
		case CURLE_SSL_CIPHER:
		case CURLE_SSL_CERTPROBLEM:
			return PGOS_HTTP_FAULT_TLS;
		case CURLE_PARTIAL_FILE:
		case CURLE_GOT_NOTHING:
		case CURLE_SEND_ERROR:
		case CURLE_RECV_ERROR:
		case CURLE_SEND_FAIL_REWIND:
			return PGOS_HTTP_FAULT_BROKEN;
		case CURLE_WEIRD_SERVER_REPLY:
		case CURLE_UNSUPPORTED_PROTOCOL: /* an answer without a status line */
		case CURLE_HTTP_RETURNED_ERROR:
		case CURLE_BAD_CONTENT_ENCODING:
			return PGOS_HTTP_FAULT_MALFORMED;
		case CURLE_WRITE_ERROR:
			if (attempt->overflow)
				return PGOS_HTTP_FAULT_TOO_LARGE;
			/* libcurl reports some broken answers so, too */
			return attempt->no_memory ? PGOS_HTTP_FAULT_OTHER : PGOS_HTTP_FAULT_MALFORMED;
		case CURLE_URL_MALFORMAT:
		case CURLE_BAD_FUNCTION_ARGUMENT:
			return PGOS_HTTP_FAULT_NOT_SENT;
		default:
			return PGOS_HTTP_FAULT_OTHER;
	}
}

/* The reason in words: printable ASCII only, since bytes of the peer may be in it. */
static void
set_fault_text(PgosHttpAttempt *attempt, CURLcode code)
{
	PgosHttpReply *reply = &attempt->reply;
	const char	  *text = attempt->error[0] != '\0' ? attempt->error : curl_easy_strerror(code);
	long		   os_errno = 0;

	if (reply->fault == PGOS_HTTP_FAULT_REFUSED)
	{
		(void) curl_easy_getinfo(attempt->easy, CURLINFO_OS_ERRNO, &os_errno);
		if (os_errno != 0)
			text = strerror((int) os_errno);
	}
	if (attempt->no_memory)
		text = "out of memory";
	else if (attempt->bad_status)
		text = "the status is no number of three digits";
	strlcpy(reply->fault_text, text, sizeof(reply->fault_text));
	for (char *p = reply->fault_text; *p != '\0'; p++)
	{
		if ((unsigned char) *p < 0x20 || (unsigned char) *p > 0x7e)
			*p = '?';
	}
}

void
pgos_attempt_end(PgosHttpAttempt *attempt, CURLcode code)
{
	PgosHttpReply *reply = &attempt->reply;
	long		   status = 0;

	(void) curl_easy_getinfo(attempt->easy, CURLINFO_RESPONSE_CODE, &status);
	reply->status = (int) status;
	reply->fault = fault_of_code(attempt, code);
	/* Closed by itself, but with no status line: libcurl may call that a success. */
	if (reply->fault == PGOS_HTTP_FAULT_NONE && status == 0)
		reply->fault = PGOS_HTTP_FAULT_MALFORMED;
	if (reply->fault != PGOS_HTTP_FAULT_NONE)
		set_fault_text(attempt, code);
	release_easy(attempt, reply->fault == PGOS_HTTP_FAULT_NONE);
}

void
pgos_attempt_abort(PgosHttpAttempt *attempt, PgosHttpFault fault, const char *text)
{
	PgosHttpReply *reply = &attempt->reply;
	long		   status = 0;

	if (attempt->easy != NULL)
		(void) curl_easy_getinfo(attempt->easy, CURLINFO_RESPONSE_CODE, &status);
	reply->status = (int) status;
	reply->fault = fault;
	strlcpy(reply->fault_text, text, sizeof(reply->fault_text));
	release_easy(attempt, false);
}

int64
pgos_attempt_progress(PgosHttpAttempt *attempt)
{
	curl_off_t up = 0;
	curl_off_t down = 0;
	long	   header = 0;

	(void) curl_easy_getinfo(attempt->easy, CURLINFO_SIZE_UPLOAD_T, &up);
	(void) curl_easy_getinfo(attempt->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
	(void) curl_easy_getinfo(attempt->easy, CURLINFO_HEADER_SIZE, &header);
	return (int64) up + down + header;
}
