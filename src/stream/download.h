/*
 * download.h
 *		The first source of a pull: one object, fetched by ranged GETs in parallel, given out in order.
 */
#ifndef PGOS_DOWNLOAD_H
#define PGOS_DOWNLOAD_H

#include "port/pg_crc32c.h"
#include "store/store.h"
#include "stream/source.h"

/*
 * info: size and etag of the object as it must be (HEAD, or the manifest).  The ranges are asked for with
 * If-Match, so that an object replaced meanwhile is an error.  crc: what the CRC32C of all bytes must be, or
 * NULL; it is compared before the end is reported.  received (may be NULL) counts the bytes given out.
 * Memory: concurrency buffers of range_size bytes; 0 for the store's concurrency and part size.
 */
extern PgosSource *
pgos_download_source_new(PgosStore *store, const char *key, const PgosObjectInfo *info,
						 const pg_crc32c *crc, int64 range_size, int concurrency);

/* Bytes of the object that the reader has been given so far. */
extern int64 pgos_download_source_position(PgosSource *source);

/* Bytes of the object that the reader has not been given yet. */
extern int64 pgos_download_source_remaining(PgosSource *source);

/* Cancels what is in flight, frees the buffers. */
extern void pgos_download_source_close(PgosSource *source);

#endif
