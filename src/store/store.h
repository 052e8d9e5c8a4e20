/*
 * store.h
 *		Object stores as the layers above see them: opaque stores, asynchronous requests.
 *
 * A PgosStore is one foreign server opened with one role's credentials.  It belongs to the memory context it
 * was opened in: resetting that context cancels whatever is in flight and frees every handle.  Connections to
 * the server outlive it: they are kept by the process for the next store (http layer).
 *
 * Requests are asynchronous.  A *_start() function returns at once; the caller then drives all requests of
 * the process with pgos_store_wait() until the ones it needs are done, and ends each with
 * pgos_request_finish(), which raises the request's failure.  Retries (with backoff and a new signature) are
 * inside: a request is done when it has succeeded or failed for good.  Drivers without a network (file:) do
 * the work in *_start().
 *
 * Buffers: `data` and `dest` belong to the caller and must stay until the request is finished or cancelled.
 * Keys are raw UTF-8 (not percent-encoded), relative to the prefix in the server's url; never empty, never
 * with a leading '/'.  Sizes are bytes.
 *
 * Runs in: background workers, and a backend that calls a synchronous function.  Everything may raise unless
 * stated otherwise.  Needs a transaction only for pgos_store_open() and pgos_store_check_usage().
 */
#ifndef PGOS_STORE_H
#define PGOS_STORE_H

#include "postgres.h"

typedef struct PgosStore   PgosStore;
typedef struct PgosRequest PgosRequest;

typedef struct PgosObjectInfo
{
	int64 size;		 /* bytes; -1 when the store did not say */
	char  etag[128]; /* with its quotes as the store sent them; "" when it did not say */
	int64 mtime;	 /* seconds since 1970, or 0 */
} PgosObjectInfo;

typedef enum PgosPutCondition
{
	PGOS_PUT_ALWAYS,   /* overwrite */
	PGOS_PUT_IF_ABSENT /* fail with ERRCODE_DUPLICATE_OBJECT if the key exists */
} PgosPutCondition;

/* Limits that a store has, after its server options: what the planner of parts must respect. */
typedef struct PgosStoreLimits
{
	int64 part_size;	   /* bytes: size of the first parts (option part_size, else the GUC) */
	int64 min_part_size;   /* bytes: every part but the last (5 MiB for S3, 1 for file) */
	int64 max_part_size;   /* bytes (5 GiB for S3) */
	int	  max_parts;	   /* 10,000 for S3 */
	int64 max_object_size; /* bytes (5 TiB for S3) */
	int	  concurrency; /* requests in flight for one stream (option concurrency, else the GUC) */
} PgosStoreLimits;

/* ---------------------------------------------------------------- opening */

/*
 * Opens the server for the user: looks up the user mapping, resolves options, contacts nobody.  Raises for a
 * missing user mapping or an option that makes no sense.  Privileges are not checked here.
 */
extern PgosStore *pgos_store_open(Oid serverid, Oid userid);
extern void		  pgos_store_close(PgosStore *store);

/*
 * From now on the store's requests give up soon: a few seconds without progress, two attempts.  For a clean-up after
 * a failure, which should not keep anybody waiting for a server that does not answer.
 */
extern void pgos_store_hurry(PgosStore *store);

/* "s3://bucket/prefix/key" for messages and catalog rows: no secrets, not encoded.  palloc'd. */
extern char					 *pgos_store_url(PgosStore *store, const char *key);
extern const char			 *pgos_store_server_name(PgosStore *store);
extern const PgosStoreLimits *pgos_store_limits(PgosStore *store);

/* ---------------------------------------------------------------- requests */

/* PUT of a whole object.  On success *info (may be NULL) holds its etag and size. */
extern PgosRequest *pgos_put_start(PgosStore *store, const char *key, const void *data, size_t len,
								   PgosPutCondition condition, PgosObjectInfo *info);

/*
 * GET of the bytes [offset, offset + len) into dest.  A shorter body than asked for is resumed, then a
 * failure; it is never reported as success.  With if_match (an etag with its quotes) a changed object fails
 * with ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE and a message that says it was replaced.
 */
extern PgosRequest *pgos_get_start(PgosStore *store, const char *key, int64 offset, size_t len,
								   const char *if_match, void *dest);

/*
 * Multipart uploads.  The key appears only when pgos_upload_complete() has returned; it returns only on a
 * good answer (an ETag in the body, or, when the store sends none or the answer was lost, a HEAD that proves
 * that the object is the one just uploaded, by size and by the part count in its multipart etag or by mtime).
 * pgos_upload_abort() removes all parts; it does not raise for an upload that is gone, it raises for others.
 * An upload that is neither completed nor aborted stays open in the store: abort it.
 */
typedef struct PgosUpload PgosUpload;
extern PgosUpload		 *pgos_upload_begin(PgosStore *store, const char *key);
extern const char		 *pgos_upload_id(PgosUpload *upload);
/* part_no from 1, in any order, several in flight. */
extern PgosRequest *
pgos_upload_part_start(PgosUpload *upload, int part_no, const void *data, size_t len);
/* total_size: sum of the parts.  All part requests must be finished. */
extern void pgos_upload_complete(PgosUpload *upload, int64 total_size, PgosPutCondition condition,
								 PgosObjectInfo *info);
extern void pgos_upload_abort(PgosUpload *upload);

/*
 * Aborts every upload open below a folder ("a/b/", "" for all) or of the one key: what an earlier attempt of a job
 * left behind.  Returns how many.
 */
extern int pgos_upload_abort_all(PgosStore *store, const char *key_prefix);

/* True when the request will not change any more.  Never raises. */
extern bool pgos_request_done(PgosRequest *request);
/* Waits until it is done, raises its failure, frees it. */
extern void pgos_request_finish(PgosRequest *request);
/* Drops it whatever its state, frees it.  Never raises, does not wait for the server. */
extern void pgos_request_cancel(PgosRequest *request);

/*
 * Drives every request of the process.  timeout_ms 0: only what can be done without waiting (call it now and
 * then from a busy loop); < 0: until at least one request of the store becomes done.  Waits on the sockets and
 * the process latch, then CHECK_FOR_INTERRUPTS().  Returns at once if nothing is in flight.  With timeout 0
 * store may be NULL.
 */
extern void pgos_store_wait(PgosStore *store, long timeout_ms);

/* ---------------------------------------------------------------- synchronous calls */

/* False when there is no such key. */
extern bool pgos_store_head(PgosStore *store, const char *key, PgosObjectInfo *info);

/*
 * Whole object into palloc'd memory with a NUL behind it (not counted in *len); NULL when there is no such
 * key; an object larger than max_len is a failure.
 */
extern char *pgos_store_read(PgosStore *store, const char *key, size_t max_len, size_t *len,
							 PgosObjectInfo *info);
extern void	 pgos_store_write(PgosStore *store, const char *key, const void *data, size_t len,
							  PgosPutCondition condition, PgosObjectInfo *info);
/* Not an error when there is no such key. */
extern void pgos_store_delete(PgosStore *store, const char *key);

/*
 * Every key that begins with key_prefix, in byte order, page by page.  With delimiter '/' the keys that go on
 * behind the next '/' are folded into one entry that ends in '/' (info zero); '\0' for none.  key is relative
 * to the store's prefix.  The callback returns false to stop early.
 */
typedef bool (*PgosListCallback)(const char *key, const PgosObjectInfo *info, void *arg);
extern void pgos_store_list(PgosStore *store, const char *key_prefix, char delimiter,
							PgosListCallback callback, void *arg);

/* ---------------------------------------------------------------- statistics */

/* Counted over the life of the store. */
typedef struct PgosStoreCounters
{
	int64 requests;	  /* attempts sent */
	int64 retries;	  /* of these, repeats */
	int64 throttles;  /* answers 429, 503 and SlowDown */
	int64 bytes_sent; /* bodies */
	int64 bytes_received;
} PgosStoreCounters;
extern const PgosStoreCounters *pgos_store_counters(PgosStore *store);

#endif
