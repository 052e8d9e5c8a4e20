/*
 * pull_object.c
 *		The objects of a pull: fetched ahead, decompressed, loaded one after the other.
 *
 * While one object is loaded, the GETs of those that follow are in flight: as many as fit into the memory that
 * one stream may have (concurrency times part size).  Sizes and etags come from the listing, so there is no
 * request for an object besides its GETs.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "copy/copy_options.h"
#include "core/guess.h"
#include "errors.h"
#include "job/pull_internal.h"
#include "store/store.h"
#include "stream/decompress.h"
#include "stream/download.h"
#include "stream/peek_source.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* At most so many objects are fetched at a time, for each GET that may be in flight. */
#define PGOS_PULL_AHEAD_FACTOR 2
/* Stored bytes from which on frozen rows are worth the file of a visibility map. */
#define PGOS_PULL_FREEZE_BYTES (256 * 1024)

/* An object that is being fetched. */
typedef struct PgosPullStream
{
	PgosJobObject *object;
	MemoryContext  context; /* of all that belongs to it */
	PgosSource	  *download;
} PgosPullStream;

/* ---------------------------------------------------------------- fetching */

static int64
pgos_pull_part_size(const PgosPull *pull)
{
	return pull->spec->part_size > 0 ? pull->spec->part_size
									 : pgos_store_limits(pull->run->store)->part_size;
}

static int
pgos_pull_concurrency(const PgosPull *pull)
{
	return pull->spec->concurrency > 0 ? pull->spec->concurrency
									   : pgos_store_limits(pull->run->store)->concurrency;
}

static void
pgos_pull_open(PgosPull *pull, PgosJobObject *object)
{
	MemoryContext	old = MemoryContextSwitchTo(pull->run->context);
	PgosPullStream *stream = palloc0(sizeof(PgosPullStream));
	PgosObjectInfo	info = {0};
	pg_crc32c		crc = object->crc;

	stream->object = object;
	stream->context =
		AllocSetContextCreate(pull->run->context, "pgobjstore object", ALLOCSET_DEFAULT_SIZES);
	pull->streams = lappend(pull->streams, stream);
	pull->next_open++;
	MemoryContextSwitchTo(stream->context);
	info.size = object->bytes;
	if (object->etag != NULL)
		strlcpy(info.etag, object->etag, sizeof(info.etag));
	stream->download = pgos_download_source_new(pull->run->store, object->key, &info,
												object->has_crc ? &crc : NULL,
												pull->spec->part_size, pull->spec->concurrency);
	MemoryContextSwitchTo(old);
}

/* Begins to fetch the objects that come next, as far as the memory of the stream allows. */
static void
pgos_pull_fetch_ahead(PgosPull *pull)
{
	int		  concurrency = pgos_pull_concurrency(pull);
	int64	  budget = pgos_pull_part_size(pull) * concurrency;
	int64	  ahead = 0;
	ListCell *lc;

	foreach (lc, pull->streams)
		ahead +=
			Min(pgos_download_source_remaining(((PgosPullStream *) lfirst(lc))->download), budget);
	while (pull->next_open < list_length(pull->objects) &&
		   list_length(pull->streams) <= concurrency * PGOS_PULL_AHEAD_FACTOR)
	{
		PgosJobObject *next = list_nth(pull->objects, pull->next_open);

		if (ahead + Min(next->bytes, budget) > budget)
			break;
		pgos_pull_open(pull, next);
		ahead += Min(next->bytes, budget);
	}
}

/* Told by the loader now and then, in the middle of COPY. */
static void
pgos_pull_tick(int64 rows, void *arg)
{
	PgosPull *pull = arg;
	int64	  raw = pull->raw_bytes;
	int64	  stored = pull->stored_bytes;

	if (pull->decoded != NULL)
	{
		PgosPullStream *stream = linitial(pull->streams);

		raw += pgos_peek_source_taken(pull->decoded);
		stored += pgos_download_source_position(stream->download);
		pgos_pull_fetch_ahead(pull);
	}
	pgos_progress_rows(pull->rows + rows);
	pgos_progress_bytes(raw, stored, 0);
	pgos_progress_percent(Min(stored, pull->total_bytes * 99 / 100), pull->total_bytes);
	pgos_store_wait(pull->run->store, 0);
}

/* ---------------------------------------------------------------- format and compression */

static const char *const compression_names[] = {"no compression", "zstd", "gzip", "lz4"};

/* Whether the first bytes are those of the compression. */
static bool
pgos_pull_is_compressed(PgosMagic magic, PgosCompression compression)
{
	switch (magic)
	{
		case PGOS_MAGIC_GZIP:
			return compression == PGOS_COMPRESSION_GZIP;
		case PGOS_MAGIC_ZSTD:
			return compression == PGOS_COMPRESSION_ZSTD;
		case PGOS_MAGIC_LZ4:
			return compression == PGOS_COMPRESSION_LZ4;
		case PGOS_MAGIC_SKIPPABLE:
			return compression == PGOS_COMPRESSION_ZSTD || compression == PGOS_COMPRESSION_LZ4;
		default:
			return compression == PGOS_COMPRESSION_NONE;
	}
}

static PgosCompression
pgos_pull_compression_of(PgosMagic magic)
{
	for (int i = PGOS_COMPRESSION_NONE; i <= PGOS_COMPRESSION_LZ4; i++)
	{
		if (pgos_pull_is_compressed(magic, (PgosCompression) i))
			return (PgosCompression) i;
	}
	return PGOS_COMPRESSION_NONE;
}

static void
pgos_pull_check_foreign(const PgosJobObject *object, const char *what)
{
	if (what != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("object \"%s\" cannot be read: it is %s", object->url, what),
				 errdetail("Formats are csv, text and binary, compressions zstd, gzip and lz4."),
				 errhint("Use a path that leaves it out, or convert it.")));
}

/* The compression of an object without a manifest: as given, else by its name, else by its first bytes. */
static PgosCompression
pgos_pull_compression(PgosPull *pull, const PgosJobObject *object, const PgosNameGuess *guess,
					  PgosSource *stored)
{
	size_t			avail = pgos_peek_source_look(stored, PGOS_MAGIC_BYTES);
	const char	   *foreign;
	PgosMagic		magic = pgos_guess_magic(stored->data, avail, &foreign);
	PgosCompression compression;

	pgos_pull_check_foreign(object, foreign);
	if (pull->spec->has_compression)
		compression = pull->spec->compression;
	else if (guess->has_compression)
		compression = guess->compression;
	else
		return pgos_pull_compression_of(magic);
	if (avail > 0 && !pgos_pull_is_compressed(magic, compression))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("object \"%s\" is not what %s", object->url,
							   pull->spec->has_compression ? "argument \"compression\" says"
														   : "its name says"),
						errdetail("It should be compressed with %s, and begins as with %s.",
								  compression_names[compression],
								  compression_names[pgos_pull_compression_of(magic)]),
						errhint("Give the right compression => '...', or none for an object "
								"without; it holds for all "
								"objects of the pull.")));
	return compression;
}

/* The format of an object without a manifest, likewise. */
static PgosFormat
pgos_pull_format(PgosPull *pull, const PgosJobObject *object, const PgosNameGuess *guess,
				 PgosSource *decoded)
{
	size_t		avail = pgos_peek_source_look(decoded, PGOS_MAGIC_BYTES);
	const char *foreign;
	PgosMagic	magic = pgos_guess_magic(decoded->data, avail, &foreign);
	PgosFormat	format;

	pgos_pull_check_foreign(object, foreign);
	if (pull->spec->has_format)
		format = pull->spec->format;
	else if (guess->has_format)
		format = guess->format;
	else
	{
		pgos_pull_check_foreign(object, guess->foreign);
		return magic == PGOS_MAGIC_BINARY ? PGOS_FORMAT_BINARY : PGOS_FORMAT_CSV;
	}
	if (avail > 0 && (magic == PGOS_MAGIC_BINARY) != (format == PGOS_FORMAT_BINARY))
		ereport(ERROR,
				(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				 errmsg("object \"%s\" is not what %s", object->url,
						pull->spec->has_format ? "argument \"format\" says" : "its name says"),
				 magic == PGOS_MAGIC_BINARY
					 ? errdetail("It begins with the signature of COPY's binary format.")
					 : errdetail("It does not begin with the signature of COPY's binary format."),
				 errhint("Give the right format => '...'; it holds for all objects of the pull.")));
	return format;
}

/* ---------------------------------------------------------------- loading */

/* Puts the sources together; what the object is goes into *load_object. */
static void
pgos_pull_describe(PgosPull *pull, PgosPullStream *stream, PgosLoadObject *load_object)
{
	PgosJobObject  *object = stream->object;
	PgosNameGuess	guess = pgos_guess_name(object->key);
	PgosSource	   *stored = pgos_peek_source_new(stream->download);
	PgosCompression compression;

	load_object->key = object->key;
	load_object->url = object->url;
	if (pull->manifest != NULL)
	{
		pull->decoded = pgos_peek_source_new(
			pgos_decompress_source_new(pull->manifest->compression, stream->download, object->url));
		load_object->format = pull->manifest->format;
		load_object->options = pull->manifest_options;
		load_object->columns = pull->manifest->columns;
		load_object->wanted = pull->spec->columns;
		load_object->own = true;
		return;
	}
	compression = pgos_pull_compression(pull, object, &guess, stored);
	pull->decoded =
		pgos_peek_source_new(pgos_decompress_source_new(compression, stored, object->url));
	load_object->format = pgos_pull_format(pull, object, &guess, pull->decoded);
	load_object->options = pgos_copy_options_build(true, load_object->format, pull->spec->options);
	load_object->columns = pull->spec->columns;
	if (load_object->format == PGOS_FORMAT_BINARY && pull->spec->load.skip)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("on_error => 'skip' does not work with the format binary"),
				 errdetail("Object \"%s\" is in that format, which has no lines.", object->url)));
}

static void
pgos_pull_check_rows(PgosPull *pull, const PgosJobObject *object, const PgosLoadCounts *counts)
{
	if (object->rows < 0 || object->rows == counts->read || pgos_load_may_drop_rows(pull->load))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("object \"%s\" has " INT64_FORMAT " rows, its manifest has " INT64_FORMAT,
					object->url, counts->read, object->rows),
			 errhint("The object and its manifest do not belong together. Push again.")));
}

static void
pgos_pull_object(PgosPull *pull, PgosPullStream *stream)
{
	PgosJobObject *object = stream->object;
	PgosLoadObject load_object = {0};
	PgosLoadCounts counts;
	MemoryContext  old = MemoryContextSwitchTo(stream->context);
	char		   byte;

	pgos_pull_describe(pull, stream, &load_object);
	pgos_load_object(pull->load, &load_object, pull->decoded, &counts);
	/* what follows the rows (binary's trailer, an empty frame) must be right too, and nothing may follow it */
	if (pgos_source_read(pull->decoded, &byte, 1) != 0)
		ereport(ERROR, (errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
						errmsg("object \"%s\" goes on after the end of its rows", object->url),
						errhint("It is damaged, or not in the format that was given.")));
	pgos_pull_check_rows(pull, object, &counts);
	object->rows = counts.loaded;
	object->raw_bytes = pgos_peek_source_taken(pull->decoded);
	pull->decoded = NULL;
	pull->rows += counts.loaded;
	pull->rows_read += counts.read;
	pull->raw_bytes += object->raw_bytes;
	pull->stored_bytes += object->bytes;
	pgos_download_source_close(stream->download);
	pull->streams = list_delete_first(pull->streams);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(stream->context);
}

void
pgos_pull_load(PgosPull *pull, Relation rel, bool new_relation)
{
	PgosLoadEvents events = {pgos_pull_tick, pgos_pull_reject, pull};

	pull->load = pgos_load_begin(rel, new_relation && pull->total_bytes >= PGOS_PULL_FREEZE_BYTES,
								 &pull->spec->load, &events);
	for (int i = 0; i < list_length(pull->objects); i++)
	{
		if (pull->streams == NIL)
			pgos_pull_open(pull, list_nth(pull->objects, i));
		pgos_pull_fetch_ahead(pull);
		pgos_pull_object(pull, linitial(pull->streams));
	}
	if (pull->objects != NIL)
		pgos_run_note_engine(pull->run, pgos_load_copy_reason(pull->load));
	pgos_pull_rejects_finish(pull);
	pgos_progress_rows(pull->rows);
}
