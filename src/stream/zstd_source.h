/*
 * zstd_source.h
 *		A source that decompresses another: any number of zstd frames and skippable frames.
 */
#ifndef PGOS_ZSTD_SOURCE_H
#define PGOS_ZSTD_SOURCE_H

#include "stream/source.h"

/* name: what the errors call the stream (an url).  Window sizes up to 128 MiB are accepted. */
extern PgosSource *pgos_zstd_source_new(PgosSource *from, const char *name);

#endif
