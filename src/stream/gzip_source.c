/*
 * gzip_source.c
 *		A source that decompresses another: any number of gzip members.
 *
 * The stream must end where a member ends, or in zeros behind one, as tapes and block-wise copies leave them;
 * anything else (a member cut short, garbage behind a member, a bad checksum) is ERRCODE_DATA_CORRUPTED.
 * zlib's state is freed by the reset callback of the memory context that was current at
 * pgos_gzip_source_new().  Runs in a worker; may raise.
 */
#include "postgres.h"

#include <zlib.h>

#include "compat.h"
#include "stream/gzip_source.h"
#include "utils/memutils.h"

#define PGOS_GZIP_OUT_SIZE (256 * 1024)
/* inflateInit2(): the largest window, and gzip's header and trailer only */
#define PGOS_GZIP_WINDOW (15 + 16)

typedef struct PgosGzipSource
{
	PgosSource			  base;
	PgosSource			 *from;
	const char			 *name;
	z_stream			  z;
	bool				  z_made;
	char				 *out;
	bool				  any_member; /* one has ended */
	bool				  in_member;
	bool				  in_padding;
	bool				  more_out; /* the output buffer was filled: zlib may hold more */
	MemoryContextCallback callback;
} PgosGzipSource;

static void
pgos_gzip_source_release(void *arg)
{
	PgosGzipSource *gz = arg;

	if (gz->z_made)
		(void) inflateEnd(&gz->z);
	gz->z_made = false;
}

static void pgos_gzip_fail(PgosGzipSource *gz, const char *what) pg_attribute_noreturn();

static void
pgos_gzip_fail(PgosGzipSource *gz, const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("could not decompress \"%s\" with gzip: %s", gz->name, what),
					errhint("The object is damaged or is not compressed with gzip.")));
}

/* The end of the input: whether it may be there.  Always false. */
static bool
pgos_gzip_end(PgosGzipSource *gz)
{
	if (gz->in_member || !gz->any_member)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 gz->in_member ? errmsg("\"%s\" ends in the middle of a gzip member", gz->name)
							   : errmsg("\"%s\" is empty, not a gzip file", gz->name),
				 errhint("The object was not written to its end. Write it again.")));
	return false;
}

/* Behind a member: padding to the end, or another member. */
static void
pgos_gzip_between(PgosGzipSource *gz)
{
	PgosSource *from = gz->from;

	if (gz->any_member && from->data[0] == '\0')
		gz->in_padding = true;
	if (gz->in_padding)
	{
		for (size_t i = 0; i < from->avail; i++)
		{
			if (from->data[i] != '\0')
				pgos_gzip_fail(gz, "garbage after the end");
		}
		from->avail = 0;
		return;
	}
	if (inflateReset(&gz->z) != Z_OK)
		elog(ERROR, "could not reset zlib");
	gz->in_member = true;
}

static bool
pgos_gzip_source_fill(PgosSource *source)
{
	PgosGzipSource *gz = (PgosGzipSource *) source;
	PgosSource	   *from = gz->from;

	for (;;)
	{
		int	   rc;
		size_t taken;
		size_t made;

		if (from->avail == 0 && !gz->more_out && !from->fill(from))
			return pgos_gzip_end(gz);
		if (!gz->in_member)
		{
			pgos_gzip_between(gz);
			if (!gz->in_member)
				continue;
		}
		gz->z.next_in = (Bytef *) from->data;
		gz->z.avail_in = (uInt) Min(from->avail, (size_t) PG_INT32_MAX);
		gz->z.next_out = (Bytef *) gz->out;
		gz->z.avail_out = PGOS_GZIP_OUT_SIZE;
		taken = gz->z.avail_in;
		rc = inflate(&gz->z, Z_NO_FLUSH);
		taken -= gz->z.avail_in;
		made = PGOS_GZIP_OUT_SIZE - gz->z.avail_out;
		/* Z_BUF_ERROR: nothing could be done, which is no error when there was nothing to do */
		if (rc == Z_MEM_ERROR)
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
							errdetail("zlib could not allocate its window.")));
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			pgos_gzip_fail(gz, gz->any_member && gz->z.total_out == 0 ? "garbage after the end"
							   : gz->z.msg != NULL					  ? gz->z.msg
																	  : "not in gzip format");
		from->data += taken;
		from->avail -= taken;
		gz->more_out = gz->z.avail_out == 0 && rc != Z_STREAM_END;
		if (rc == Z_STREAM_END)
		{
			gz->in_member = false;
			gz->any_member = true;
		}
		if (made > 0)
		{
			gz->base.data = gz->out;
			gz->base.avail = made;
			return true;
		}
	}
}

PgosSource *
pgos_gzip_source_new(PgosSource *from, const char *name)
{
	PgosGzipSource *gz = palloc0(sizeof(PgosGzipSource));

	gz->base.fill = pgos_gzip_source_fill;
	gz->from = from;
	gz->name = pstrdup(name);
	gz->out = palloc(PGOS_GZIP_OUT_SIZE);
	gz->callback.func = pgos_gzip_source_release;
	gz->callback.arg = gz;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &gz->callback);
	if (inflateInit2(&gz->z, PGOS_GZIP_WINDOW) != Z_OK)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
						errdetail("zlib state.")));
	gz->z_made = true;
	return &gz->base;
}
