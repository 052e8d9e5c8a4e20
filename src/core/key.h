/*
 * key.h
 *		Object keys: the layout of a dataset in the store, and what a path of the user's may be.
 *
 *		<database>/<schema>.<table>/<YYYYMMDDThhmmssZ>-<job>/part-00000.csv.zst ... manifest.json
 *
 * Keys are raw UTF-8, relative to the prefix in the server's url, not yet percent-encoded for the wire.  Names
 * must be given in UTF-8: converting from the server's encoding is the caller's work.  Results are palloc'd.
 * Runs anywhere; raises nothing but out of memory.
 */
#ifndef PGOS_KEY_H
#define PGOS_KEY_H

#include "core/base.h"
#include "core/format.h"
#include "pgtime.h"

/* The longest key that S3 and Google Cloud Storage take, in bytes. */
#define PGOS_KEY_MAX_LEN 1024
#define PGOS_MANIFEST_NAME "manifest.json"

/*
 * Appends a name as part of a key: '/', '%', '.', control characters and bytes that are not valid UTF-8 become
 * %XX, so that "<schema>.<table>" can be read back in one way only and no name is "." or "..".
 */
extern void pgos_key_component(StringInfo out, const char *name);

/* The folder of a dataset, with its final '/'.  enqueued: seconds since 1970. */
extern char *pgos_key_dataset(const char *database, const char *schema, const char *table,
							  pg_time_t enqueued, int64 job);

/*
 * The key of object number index (from 0) in a folder (with its final '/', or ""): "part-00000.csv.zst", or
 * "part-00000-<suffix>.csv.zst" with a suffix that is not NULL.
 */
extern char *pgos_key_object(const char *folder, int index, PgosFormat format,
							 PgosCompression compression, const char *suffix);

/*
 * Checks a path that a user gave: a folder (with a final '/') or the key of one object.  NULL when it is good,
 * else what is wrong with it as a sentence for DETAIL (static).
 */
extern const char *pgos_key_check(const char *key);

#endif
