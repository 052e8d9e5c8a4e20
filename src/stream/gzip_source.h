/*
 * gzip_source.h
 *		A source that decompresses another: any number of gzip members.
 */
#ifndef PGOS_GZIP_SOURCE_H
#define PGOS_GZIP_SOURCE_H

#include "stream/source.h"

/* name: what the errors call the stream (an url).  Zeros behind the last member (padding) are accepted. */
extern PgosSource *pgos_gzip_source_new(PgosSource *from, const char *name);

#endif
