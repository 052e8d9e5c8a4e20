/*
 * decompress.h
 *		The source that undoes a compression.
 */
#ifndef PGOS_DECOMPRESS_H
#define PGOS_DECOMPRESS_H

#include "core/format.h"
#include "stream/source.h"

/* `from` itself for PGOS_COMPRESSION_NONE.  name: what the errors call the stream (an url). */
extern PgosSource *
pgos_decompress_source_new(PgosCompression compression, PgosSource *from, const char *name);

#endif
