/*
 * format.h
 *		The formats and compressions that objects may have, and the file name extensions that say so.
 *
 * Runs anywhere, never raises, allocates nothing.
 */
#ifndef PGOS_FORMAT_H
#define PGOS_FORMAT_H

#include "core/base.h"

typedef enum PgosFormat
{
	PGOS_FORMAT_CSV,
	PGOS_FORMAT_TEXT,
	PGOS_FORMAT_BINARY
} PgosFormat;

typedef enum PgosCompression
{
	PGOS_COMPRESSION_NONE,
	PGOS_COMPRESSION_ZSTD,
	PGOS_COMPRESSION_GZIP,
	PGOS_COMPRESSION_LZ4
} PgosCompression;

/* ".csv", ".txt", ".bin" */
extern const char *pgos_format_extension(PgosFormat format);
/* "", ".zst", ".gz", ".lz4" */
extern const char *pgos_compression_extension(PgosCompression compression);

#endif
