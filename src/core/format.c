/*
 * format.c
 *		The formats and compressions that objects may have, and the file name extensions that say so.
 */
#include "core/format.h"

const char *
pgos_format_extension(PgosFormat format)
{
	switch (format)
	{
		case PGOS_FORMAT_CSV:
			return ".csv";
		case PGOS_FORMAT_TEXT:
			return ".txt";
		case PGOS_FORMAT_BINARY:
			return ".bin";
	}
	return "";
}

const char *
pgos_compression_extension(PgosCompression compression)
{
	switch (compression)
	{
		case PGOS_COMPRESSION_NONE:
			return "";
		case PGOS_COMPRESSION_ZSTD:
			return ".zst";
		case PGOS_COMPRESSION_GZIP:
			return ".gz";
		case PGOS_COMPRESSION_LZ4:
			return ".lz4";
	}
	return "";
}
