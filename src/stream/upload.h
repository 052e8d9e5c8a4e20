/*
 * upload.h
 *		The last sink of a push: parts of one object, uploaded in parallel while they are being filled.
 *
 * Memory: at most concurrency + 1 buffers of the part size (core/part_plan.h); when all are in flight, the
 * writer drives the network until one is free.  The first buffer begins small and grows, so that a thousand
 * small objects under way do not cost a thousand parts.
 *
 * end() sends what is left and returns; pgos_upload_sink_complete() waits for all of it and completes the
 * object, which is not visible under its key before.  An object smaller than one part is a single PUT.
 */
#ifndef PGOS_UPLOAD_H
#define PGOS_UPLOAD_H

#include "port/pg_crc32c.h"
#include "store/store.h"
#include "stream/sink.h"

/* What has become of the object: final after complete, before that as far as it is sent. */
typedef struct PgosUploadResult
{
	int64		   bytes; /* stored bytes handed to the store */
	int			   parts; /* 1 for a single PUT */
	pg_crc32c	   crc;	  /* CRC32C of the stored bytes, finished by end() */
	PgosObjectInfo info;  /* etag and size as the store gave them */
} PgosUploadResult;

/* part_size and concurrency: 0 for the store's. */
extern PgosSink *pgos_upload_sink_new(PgosStore *store, const char *key, PgosPutCondition condition,
									  int64 part_size, int concurrency);
extern const PgosUploadResult *pgos_upload_sink_result(PgosSink *sink);

/* After end(): whether pgos_upload_sink_complete() would not have to wait for the data. */
extern bool pgos_upload_sink_is_sent(PgosSink *sink);

/* After end(): bytes of the buffers that are still in flight. */
extern size_t pgos_upload_sink_memory(PgosSink *sink);

/* After end(): waits until all data has arrived.  Memory of parts is free then. */
extern void pgos_upload_sink_wait(PgosSink *sink);

/* After end(): waits for the data, completes the object. */
extern void pgos_upload_sink_complete(PgosSink *sink);

/*
 * Gives an unfinished object up: cancels what is in flight and aborts the multipart upload.  Call it after an
 * error, outside of it (the network is used); raises if the store refuses.  Nothing to do after
 * complete.
 */
extern void pgos_upload_sink_abort(PgosSink *sink);

#endif
