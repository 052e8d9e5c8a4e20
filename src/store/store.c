/*
 * store.c
 *		Stores and requests, whatever the driver: contexts, waiting, finishing, synchronous wrappers.
 *
 * Memory: store->context is a child of the caller's; every request and upload has a context below it.
 * Deleting the request's context (finish, cancel, or the store going away) also ends its HTTP operation, which
 * lives below it.
 *
 * Runs in background workers and backends.  Raises unless store.h says otherwise.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "store/store_driver.h"
#include "utils/memutils.h"

/* Time without progress after which a request of a store in a hurry is given up. */
#define PGOS_HURRY_MS 5000

/* ---------------------------------------------------------------- opening */

PgosStore *
pgos_store_open(Oid serverid, Oid userid)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "pgobjstore store", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	PgosStore	 *store = palloc0(sizeof(PgosStore));

	store->context = context;
	pgos_store_options_get(serverid, userid, &store->options);
	switch (store->options.url.scheme)
	{
		case PGOS_SCHEME_S3:
			store->driver = &pgos_s3_driver;
			break;
		case PGOS_SCHEME_FILE:
			store->driver = &pgos_file_driver;
			break;
		case PGOS_SCHEME_GS:
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("gs:// stores are not supported yet")));
			break;
	}
	store->limits.part_size = store->options.part_size;
	store->limits.concurrency = store->options.concurrency;
	store->driver->open(store);
	MemoryContextSwitchTo(old);
	return store;
}

void
pgos_store_hurry(PgosStore *store)
{
	store->options.connect_timeout = Min(store->options.connect_timeout, PGOS_HURRY_MS);
	store->options.request_timeout = Min(store->options.request_timeout, PGOS_HURRY_MS);
	store->hurry = true;
}

void
pgos_store_close(PgosStore *store)
{
	MemoryContextDelete(store->context);
}

char *
pgos_store_url(PgosStore *store, const char *key)
{
	return store->driver->url(store, key);
}

const char *
pgos_store_server_name(PgosStore *store)
{
	return store->options.server_name;
}

const PgosStoreLimits *
pgos_store_limits(PgosStore *store)
{
	return &store->limits;
}

const PgosStoreCounters *
pgos_store_counters(PgosStore *store)
{
	PgosStoreCounters *counters = &store->public_counters;

	counters->requests = store->counters.requests;
	counters->retries = store->counters.retries;
	counters->throttles = store->counters.throttles;
	counters->bytes_sent = store->counters.bytes_sent;
	counters->bytes_received = store->counters.bytes_received;
	return counters;
}

/* ---------------------------------------------------------------- for drivers */

static void
request_left(PgosRequest *request)
{
	if (request->in_flight)
		request->store->in_flight--;
	request->in_flight = false;
}

/* Reset callback of a request's context. */
static void
request_release(void *arg)
{
	request_left(arg);
}

PgosRequest *
pgos_request_create(PgosStore *store, size_t size)
{
	MemoryContext context =
		AllocSetContextCreate(store->context, "pgobjstore request", ALLOCSET_SMALL_SIZES);
	PgosRequest *request = MemoryContextAllocZero(context, size);

	request->store = store;
	request->context = context;
	request->callback.func = request_release;
	request->callback.arg = request;
	MemoryContextRegisterResetCallback(context, &request->callback);
	request->in_flight = true;
	store->in_flight++;
	return request;
}

void
pgos_request_set_done(PgosRequest *request)
{
	request_left(request);
	request->done = true;
	request->store->completions++;
}

PgosUpload *
pgos_upload_create(PgosStore *store, const char *key, size_t size)
{
	MemoryContext context =
		AllocSetContextCreate(store->context, "pgobjstore upload", ALLOCSET_DEFAULT_SIZES);
	PgosUpload *upload = MemoryContextAllocZero(context, size);

	upload->store = store;
	upload->context = context;
	upload->key = MemoryContextStrdup(context, key);
	return upload;
}

char *
pgos_display_text(const char *utf8)
{
	int	 len = (int) strlen(utf8);
	bool keep_high = GetDatabaseEncoding() == PG_UTF8 && pg_verify_mbstr(PG_UTF8, utf8, len, true);
	StringInfoData out;

	initStringInfo(&out);
	for (const char *p = utf8; *p != '\0'; p++)
	{
		unsigned char c = (unsigned char) *p;

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !keep_high))
			appendStringInfo(&out, "\\x%02X", c);
		else
			appendStringInfoChar(&out, *p);
	}
	return out.data;
}

/* ---------------------------------------------------------------- requests */

/*
 * A key that breaks the contract of store.h is a mistake of the caller's, but one that would put an object in
 * the wrong place.
 */
static void
check_key(const char *key)
{
	if (key == NULL || key[0] == '\0' || key[0] == '/')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid object key \"%s\"", key == NULL ? "" : pgos_display_text(key)),
				 errdetail("A key must not be empty or begin with a slash.")));
}

PgosRequest *
pgos_put_start(PgosStore *store, const char *key, const void *data, size_t len,
			   PgosPutCondition condition, PgosObjectInfo *info)
{
	check_key(key);
	return store->driver->put_start(store, key, data, len, condition, info);
}

PgosRequest *
pgos_get_start(PgosStore *store, const char *key, int64 offset, size_t len, const char *if_match,
			   void *dest)
{
	check_key(key);
	return store->driver->get_start(store, key, offset, len, if_match, dest);
}

PgosUpload *
pgos_upload_begin(PgosStore *store, const char *key)
{
	check_key(key);
	return store->driver->upload_begin(store, key);
}

const char *
pgos_upload_id(PgosUpload *upload)
{
	return upload->id;
}

PgosRequest *
pgos_upload_part_start(PgosUpload *upload, int part_no, const void *data, size_t len)
{
	int max_parts = upload->store->limits.max_parts;

	if (part_no < 1 || part_no > max_parts)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("upload of \"%s\" to server \"%s\" needs more than %d parts",
							   pgos_display_text(upload->key), upload->store->options.server_name,
							   max_parts),
						errhint("Set the option part_size of the server to a larger value.")));
	upload->nparts = Max(upload->nparts, part_no);
	return upload->store->driver->upload_part_start(upload, part_no, data, len);
}

void
pgos_upload_complete(PgosUpload *upload, int64 total_size, PgosPutCondition condition,
					 PgosObjectInfo *info)
{
	upload->store->driver->upload_complete(upload, total_size, condition, info);
}

void
pgos_upload_abort(PgosUpload *upload)
{
	upload->store->driver->upload_abort(upload);
}

int
pgos_upload_abort_all(PgosStore *store, const char *key_prefix)
{
	return store->driver->upload_abort_all(store, key_prefix);
}

bool
pgos_request_done(PgosRequest *request)
{
	return request->done;
}

static bool
request_is_done(void *arg)
{
	return ((PgosRequest *) arg)->done;
}

static char *
copy_text(const char *text)
{
	return text != NULL ? pstrdup(text) : NULL;
}

void
pgos_request_finish(PgosRequest *request)
{
	PgosFailure failure;

	while (!request->done)
		pgos_http_drive(-1, request_is_done, request);

	failure = request->failure;
	if (failure.sqlstate != 0)
	{
		failure.message = copy_text(failure.message);
		failure.detail = copy_text(failure.detail);
		failure.hint = copy_text(failure.hint);
		failure.request_id = copy_text(failure.request_id);
	}
	pgos_request_cancel(request);
	if (failure.sqlstate != 0)
		pgos_failure_raise(&failure);
}

void
pgos_request_cancel(PgosRequest *request)
{
	MemoryContextDelete(request->context);
}

typedef struct WaitFor
{
	PgosStore *store;
	int64	   completions;
} WaitFor;

static bool
one_more_done(void *arg)
{
	WaitFor *wait = arg;

	return wait->store->completions != wait->completions || wait->store->in_flight == 0;
}

void
pgos_store_wait(PgosStore *store, long timeout_ms)
{
	WaitFor wait = {store, store != NULL ? store->completions : 0};

	Assert(store != NULL || timeout_ms == 0);
	if (timeout_ms != 0 && store->in_flight == 0)
		return;
	pgos_http_drive(timeout_ms, one_more_done, &wait);
}

/* ---------------------------------------------------------------- synchronous calls */

bool
pgos_store_head(PgosStore *store, const char *key, PgosObjectInfo *info)
{
	check_key(key);
	return store->driver->head(store, key, info);
}

char *
pgos_store_read(PgosStore *store, const char *key, size_t max_len, size_t *len,
				PgosObjectInfo *info)
{
	check_key(key);
	return store->driver->read(store, key, max_len, len, info);
}

void
pgos_store_write(PgosStore *store, const char *key, const void *data, size_t len,
				 PgosPutCondition condition, PgosObjectInfo *info)
{
	pgos_request_finish(pgos_put_start(store, key, data, len, condition, info));
}

void
pgos_store_delete(PgosStore *store, const char *key)
{
	check_key(key);
	store->driver->delete (store, key);
}

void
pgos_store_list(PgosStore *store, const char *key_prefix, char delimiter, PgosListCallback callback,
				void *arg)
{
	store->driver->list(store, key_prefix, delimiter, callback, arg);
}
