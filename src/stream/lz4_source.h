/*
 * lz4_source.h
 *		A source that decompresses another: any number of lz4 frames and skippable frames.
 */
#ifndef PGOS_LZ4_SOURCE_H
#define PGOS_LZ4_SOURCE_H

#include "stream/source.h"

/* name: what the errors call the stream (an url). */
extern PgosSource *pgos_lz4_source_new(PgosSource *from, const char *name);

#endif
