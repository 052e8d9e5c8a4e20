/*
 * http_internal.h
 *		Shared by the files of http/ only.
 *
 * http.c owns operations and their order; http_multi.c the multi handle, its sockets and the pool of easy
 * handles; http_attempt.c one attempt: options, libcurl's callbacks, the reply.
 */
#ifndef PGOS_HTTP_INTERNAL_H
#define PGOS_HTTP_INTERNAL_H

#include "postgres.h"

#include <curl/curl.h>

#include "http/http.h"

/*
 * One attempt on the wire.  The fields that libcurl's callbacks touch are plain memory: callbacks only record.
 */
typedef struct PgosHttpAttempt
{
	CURL			  *easy; /* NULL when not on the wire */
	bool			   in_multi;
	struct curl_slist *headers; /* malloc'd by libcurl */
	PgosHttpRequest	   request;
	PgosHttpReply	   reply;				   /* reply.body is malloc'd */
	char			   error[CURL_ERROR_SIZE]; /* libcurl writes its reason here */
	size_t			   body_sent;			   /* read position in request.body */
	size_t			   body_size;			   /* allocated for reply.body */
	bool			   overflow;			   /* the body was larger than allowed */
	bool			   no_memory;
	bool			   bad_status; /* the status line was refused */
	bool			   body_began; /* to_dest was decided */
	bool			   to_dest;

	int64 began;	   /* pgos_http_now() */
	int64 progress_at; /* when progress_bytes changed last */
	int64 progress_bytes;
} PgosHttpAttempt;

/* Milliseconds of a clock that never steps. */
extern int64 pgos_http_now(void);

/* ---------------------------------------------------------------- http_attempt.c */

/* Sets the easy handle up from attempt->request and puts it on the wire.  private comes back with the end. */
extern void pgos_attempt_begin(PgosHttpAttempt *attempt, void *private);
/* Records how it ended and takes it off the wire. */
extern void pgos_attempt_end(PgosHttpAttempt *attempt, CURLcode code);
/* Ends it from our side with the fault. */
extern void pgos_attempt_abort(PgosHttpAttempt *attempt, PgosHttpFault fault, const char *text);
/* Takes it off the wire, frees what is malloc'd, forgets the reply.  Never raises; may be repeated. */
extern void pgos_attempt_clear(PgosHttpAttempt *attempt);
/* Bodies' bytes so far, both directions, plus header bytes: grows while something happens. */
extern int64 pgos_attempt_progress(PgosHttpAttempt *attempt);

/* ---------------------------------------------------------------- http_multi.c */

/* An easy handle without options; raises when there is none to be had. */
extern CURL *pgos_multi_easy_get(void);
/*
 * Gives it back (connections stay).  reuse: its transfer ended well; one that was broken off keeps buffers that
 * cannot be resized.  Never raises.
 */
extern void		 pgos_multi_easy_put(CURL *easy, bool reuse);
extern CURLMcode pgos_multi_add(CURL *easy);
/* Never raises, does not block. */
extern void pgos_multi_remove(CURL *easy);
/* Lets libcurl do everything that can be done now. */
extern void pgos_multi_pump(void);
/* The next finished transfer, or NULL. */
extern CURL *pgos_multi_finished(CURLcode *code);
/* When libcurl wants to be called next, in pgos_http_now() terms; -1: when a socket says so. */
extern int64 pgos_multi_due(void);
/* Readable when a socket of libcurl's is ready. */
extern int pgos_multi_fd(void);

#endif
