/*
 * http.h
 *		HTTP requests of this process: started at once, driven together, retried within bounds.
 *
 * A PgosHttpOp is one operation on a server: one or more attempts of a request.  Before each attempt the
 * owner's prepare() fills the request in (so that it is signed anew); after each, judge() says what the
 * answer means.  When no further attempt is made, end() is called once.  These callbacks are called from
 * pgos_http_drive(), never from inside libcurl; they may palloc and raise, but may not start, cancel or
 * drive operations.
 *
 * All operations of the process share one libcurl multi handle, whose connections outlive the operations.
 *
 * Memory and handles: an operation lives in a context of its own below the given parent.  Deleting or
 * resetting the parent, or pgos_http_cancel(), takes the operation off the wire and frees it, in any state,
 * also while an ERROR unwinds.  Request bodies and destination buffers belong to the caller and must outlive
 * the operation.
 *
 * Runs in background workers and in backends, never in the postmaster.  Everything but pgos_http_done() and
 * pgos_http_cancel() may raise.
 */
#ifndef PGOS_HTTP_H
#define PGOS_HTTP_H

#include "postgres.h"

typedef struct PgosHttpOp PgosHttpOp;

typedef enum PgosHttpMethod
{
	PGOS_HTTP_GET,
	PGOS_HTTP_HEAD,
	PGOS_HTTP_PUT,
	PGOS_HTTP_POST,
	PGOS_HTTP_DELETE
} PgosHttpMethod;

/*
 * One attempt, as prepare() fills it in.  Starts zeroed; what it points to must live until the attempt has
 * ended: the current context of prepare() does.
 */
typedef struct PgosHttpRequest
{
	PgosHttpMethod method;
	const char	  *base_url; /* "https://host:port/": where to connect */
	const char	  *target;	 /* "/path?query", sent byte for byte */
	char		 **headers;	 /* "name: value" lines, Host included */
	int			   nheaders;
	const void	  *body; /* PUT and POST */
	size_t		   body_len;

	/*
	 * The body of an answer with status 206, or 200 if dest_takes_200, goes to dest; more than dest_len bytes
	 * is a fault.  Every other body goes to memory of the operation, at most body_max bytes.
	 */
	void  *dest;
	size_t dest_len;
	bool   dest_takes_200;
	size_t body_max;

	const char *ca_file;		 /* or NULL: the system's */
	int			connect_timeout; /* ms */
	int			request_timeout; /* ms without progress */
	bool		hurry;			 /* few attempts, close to each other */
} PgosHttpRequest;

/* Why an attempt brought no complete answer. */
typedef enum PgosHttpFault
{
	PGOS_HTTP_FAULT_NONE,
	PGOS_HTTP_FAULT_RESOLVE, /* the host has no address */
	PGOS_HTTP_FAULT_REFUSED, /* nobody listens, or no route */
	PGOS_HTTP_FAULT_CONNECT_TIMEOUT,
	PGOS_HTTP_FAULT_TLS_TRUST,	 /* certificate not trusted, or for another host */
	PGOS_HTTP_FAULT_TLS_CA_FILE, /* ca_file cannot be read */
	PGOS_HTTP_FAULT_TLS,		 /* handshake failed */
	PGOS_HTTP_FAULT_STALLED,	 /* no progress within request_timeout */
	PGOS_HTTP_FAULT_TOO_SLOW,	 /* progress, but below any sensible rate */
	PGOS_HTTP_FAULT_BROKEN,		 /* connection lost before the answer was complete */
	PGOS_HTTP_FAULT_MALFORMED,	 /* not HTTP */
	PGOS_HTTP_FAULT_TOO_LARGE,	 /* body exceeds body_max or dest_len */
	PGOS_HTTP_FAULT_NOT_SENT,	 /* prepare() failed, or libcurl refused the request */
	PGOS_HTTP_FAULT_OTHER
} PgosHttpFault;

/* The answer to one attempt.  Valid in judge() and end() only.  Strings are "" when the header is missing. */
typedef struct PgosHttpReply
{
	PgosHttpFault fault;
	char fault_text[256]; /* the reason in words, from libcurl or the system; no secret in it */
	int	 status;		  /* 0 when no status line arrived */

	char  *body; /* with a NUL behind it; NULL when empty */
	size_t body_len;
	size_t dest_filled; /* bytes in dest */

	int64 content_length; /* -1: not said */
	int64 range_start;	  /* of Content-Range; -1: not said */
	int64 range_total;	  /* -1: not said */
	int64 date;			  /* seconds since 1970; 0: not said */
	int64 last_modified;  /* likewise */
	int	  retry_after;	  /* as pgos_backoff_parse_retry_after() */
	char  etag[128];
	char  request_id[128];	 /* x-amz-request-id */
	char  host_id[128];		 /* x-amz-id-2 */
	char  bucket_region[64]; /* x-amz-bucket-region */
	char  upload_token[64];	 /* x-amz-meta-pgobjstore-upload */
	char  location[256];
} PgosHttpReply;

typedef enum PgosHttpVerdict
{
	PGOS_HTTP_DONE,	 /* success */
	PGOS_HTTP_FAIL,	 /* for good */
	PGOS_HTTP_RETRY, /* again after a while, within pgos_max_retries and pgos_retry_timeout */
	PGOS_HTTP_RETRY_BRIEFLY, /* again, but within a few seconds only */
	PGOS_HTTP_NEXT			 /* at once: next step of the same operation, attempts counted from 0 */
} PgosHttpVerdict;

/* How much was tried: for messages. */
typedef struct PgosHttpTries
{
	int	  attempts;	  /* of the last step */
	int64 elapsed_ms; /* since its first attempt began */
} PgosHttpTries;

typedef struct PgosHttpOwner
{
	/* Fills the request in; returns NULL, or why that is impossible.  attempt counts from 1. */
	const char *(*prepare)(void *arg, int attempt, PgosHttpRequest *request);
	PgosHttpVerdict (*judge)(void *arg, const PgosHttpReply *reply);
	/* success is true after PGOS_HTTP_DONE.  The reply is that of the last attempt. */
	void (*end)(void *arg, bool success, const PgosHttpReply *reply, const PgosHttpTries *tries);
} PgosHttpOwner;

/* Incremented as requests go out; must outlive the operation. */
typedef struct PgosHttpCounters
{
	int64 requests;	  /* attempts sent */
	int64 retries;	  /* of these, repeats */
	int64 throttles;  /* answers 429 and 503 */
	int64 bytes_sent; /* bodies */
	int64 bytes_received;
} PgosHttpCounters;

/* Starts an operation; its first attempt goes out at once if a slot is free.  owner must be static. */
extern PgosHttpOp *pgos_http_start(MemoryContext parent, const PgosHttpOwner *owner, void *arg,
								   PgosHttpCounters *counters);
extern bool		   pgos_http_done(const PgosHttpOp *op);
/* Takes it off the wire in any state and frees it.  Does not wait for the server.  NULL is allowed. */
extern void pgos_http_cancel(PgosHttpOp *op);

/*
 * Drives every operation of the process until until(arg) is true (NULL: never), timeout_ms have passed
 * (< 0: no limit), or no operation is left.  With timeout_ms 0 it does what can be done without waiting.
 * Waits on the sockets and the process latch; then resets the latch and checks for interrupts.
 */
extern void pgos_http_drive(long timeout_ms, bool (*until)(void *arg), void *arg);

/*
 * What an attempt's outcome means for the next one, as far as HTTP alone says: PGOS_HTTP_DONE for 2xx.
 */
extern PgosHttpVerdict pgos_http_classify(const PgosHttpReply *reply);

#endif
