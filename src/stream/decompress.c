/*
 * decompress.c
 *		The source that undoes a compression.
 */
#include "postgres.h"

#include "stream/decompress.h"
#include "stream/gzip_source.h"
#include "stream/lz4_source.h"
#include "stream/zstd_source.h"

PgosSource *
pgos_decompress_source_new(PgosCompression compression, PgosSource *from, const char *name)
{
	switch (compression)
	{
		case PGOS_COMPRESSION_NONE:
			break;
		case PGOS_COMPRESSION_ZSTD:
			return pgos_zstd_source_new(from, name);
		case PGOS_COMPRESSION_GZIP:
			return pgos_gzip_source_new(from, name);
		case PGOS_COMPRESSION_LZ4:
			return pgos_lz4_source_new(from, name);
	}
	return from;
}
