/*
 * guess.h
 *		What an object is: by its name, and by its first bytes.
 *
 * Runs anywhere, never raises, allocates nothing.
 */
#ifndef PGOS_GUESS_H
#define PGOS_GUESS_H

#include "core/base.h"
#include "core/format.h"

typedef struct PgosNameGuess
{
	bool			has_format; /* .csv; .tsv and .txt: text; .bin */
	PgosFormat		format;
	bool			has_compression; /* .gz .zst .lz4 */
	PgosCompression compression;
	const char *foreign; /* what it is when it is nothing that COPY reads ("Parquet"), or NULL */
} PgosNameGuess;

/* By the extensions of the key's last component, in any case of letters. */
extern PgosNameGuess pgos_guess_name(const char *key);

typedef enum PgosMagic
{
	PGOS_MAGIC_NONE, /* nothing known: text of some kind, or empty */
	PGOS_MAGIC_GZIP,
	PGOS_MAGIC_ZSTD,
	PGOS_MAGIC_LZ4,
	PGOS_MAGIC_SKIPPABLE, /* a frame to be skipped, of zstd or lz4, and no more in sight */
	PGOS_MAGIC_BINARY,	  /* COPY's binary format */
	PGOS_MAGIC_UTF8_BOM,
	PGOS_MAGIC_UTF16,  /* or UTF-32: a byte order mark that COPY has no encoding for */
	PGOS_MAGIC_FOREIGN /* something that COPY does not read */
} PgosMagic;

/* As many bytes as pgos_guess_magic() likes to see. */
#define PGOS_MAGIC_BYTES 64
#define PGOS_UTF8_BOM_LEN 3

/* foreign (may be NULL) is set as in PgosNameGuess. */
extern PgosMagic pgos_guess_magic(const char *data, size_t len, const char **foreign);

#endif
