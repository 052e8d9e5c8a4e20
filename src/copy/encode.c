/*
 * encode.c
 *		The direct encoder: plan, window and rows.
 *
 * A tuple of a heap is not deformed first: it is walked once, and each value is encoded where it lies in the
 * page.  Types are the business of encode_values.c.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "commands/progress.h"
#include "copy/encode_internal.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/backend_progress.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define PGOS_TICK_BYTES (64 * 1024)
#define PGOS_SCRATCH_SIZE ((size_t) 32 * 1024)

const char *
pgos_encoder_refusal(const CopyFormatOptions *options)
{
	if (options->binary)
		return "binary format";
	/* what the server would hand out as it is */
	if (options->file_encoding != GetDatabaseEncoding() && options->file_encoding != PG_SQL_ASCII)
		return "the encoding is not the database's";
	return NULL;
}

/* ---------------------------------------------------------------- window */

/* Makes the rest of the sink's buffer the window.  The row under way, if any, goes on there. */
static char *
pgos_encode_open_window(PgosEncoder *enc)
{
	PgosSink *sink = enc->sink;
	size_t	  mark = Min(sink->cut_len, sink->size);
	int64	  to_tick = enc->ticked + PGOS_TICK_BYTES - sink->raw_bytes;

	enc->in_scratch = false;
	enc->end = sink->buf + sink->size;
	enc->limit = enc->end - enc->room;
	if (to_tick < (int64) mark)
		mark = (size_t) Max(to_tick, 0);
	enc->mark = sink->buf + mark;
	enc->row = sink->buf + sink->len;
	return enc->row;
}

char *
pgos_encode_make_room(PgosEncoder *enc, char *p, size_t n)
{
	PgosSink *sink = enc->sink;

	enc->row_len += p - enc->row;
	/* COPY's own limit: no COPY FROM could read a longer row back */
	if (enc->row_len >= MaxAllocSize)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("row " INT64_FORMAT " is too large", enc->rows + 1),
						errdetail("COPY can neither write nor read rows of 1 GB or more.")));
	if (enc->in_scratch)
	{
		CHECK_FOR_INTERRUPTS();
		pgos_sink_write(sink, enc->scratch, p - enc->scratch);
		if (sink->size - sink->len >= n)
			return pgos_encode_open_window(enc);
	}
	else
		sink->len = p - sink->buf;
	if (n > enc->scratch_size)
	{
		if (enc->scratch != NULL)
			pfree(enc->scratch);
		enc->scratch = NULL;
		enc->scratch_size = Max(n, PGOS_SCRATCH_SIZE);
		enc->scratch = MemoryContextAllocHuge(enc->context, enc->scratch_size);
	}
	enc->in_scratch = true;
	enc->end = enc->scratch + enc->scratch_size;
	enc->limit = enc->end - enc->room;
	enc->mark = enc->scratch;
	enc->row = enc->scratch;
	return enc->scratch;
}

/* At the end of a row at or behind the mark: the row is in the sink, which may cut; tell of progress. */
static char *
pgos_encode_row_ended(PgosEncoder *enc, char *p)
{
	PgosSink *sink = enc->sink;

	if (enc->in_scratch)
		pgos_sink_write(sink, enc->scratch, p - enc->scratch);
	else
		sink->len = p - sink->buf;
	pgos_sink_row_end(sink);
	if (pgos_sink_written(sink) - enc->ticked >= PGOS_TICK_BYTES)
	{
		enc->ticked = pgos_sink_written(sink);
		pgstat_progress_update_param(PROGRESS_COPY_TUPLES_PROCESSED, enc->rows);
		pgstat_progress_update_param(PROGRESS_COPY_BYTES_PROCESSED, enc->ticked);
		enc->tick(enc->rows, enc->arg);
	}
	return pgos_encode_open_window(enc);
}

/* ---------------------------------------------------------------- rows */

/* Every value, NULL too, has its delimiter behind it; the last one becomes the end of the line. */
static inline void
pgos_encode_end_row(PgosEncoder *enc, char *p)
{
	if (enc->count > 0)
		p[-1] = '\n';
	else
	{
		p = pgos_encode_room(enc, p, 1);
		*p++ = '\n';
	}
	enc->rows++;
	if (unlikely(p >= enc->mark))
		p = pgos_encode_row_ended(enc, p);
	enc->p = p;
	enc->row = p;
	enc->row_len = 0;
	if (enc->row_dirty)
	{
		MemoryContextReset(enc->row_context);
		enc->row_dirty = false;
	}
}

static inline char *
pgos_encode_null(PgosEncoder *enc, char *p)
{
	memcpy(p, enc->null_print, enc->null_len);
	return p + enc->null_len;
}

/*
 * Writes the value that begins at *value, or behind the padding there if it is in a tuple, and moves *value to what
 * follows in the tuple.
 */
static pg_attribute_always_inline char *
pgos_encode_stored(PgosEncoder *enc, PgosEncodeColumn *col, bool in_tuple, const char **value,
				   char *p)
{
	const char *data = *value;
	size_t		len = col->attlen;

	switch ((PgosStored) col->stored)
	{
		case PGOS_STORED_FIXED:
			if (in_tuple)
				data += -(uintptr_t) data & col->align_mask;
			*value = data + len;
			break;
		case PGOS_STORED_INT4:
		{
			int32 v;

			if (in_tuple)
				data = (const char *) INTALIGN(data);
			memcpy(&v, data, sizeof(v));
			*value = data + sizeof(v);
			return pgos_put_int(p, v);
		}
		case PGOS_STORED_INT8:
		{
			int64 v;

			if (in_tuple)
				data = (const char *) DOUBLEALIGN(data);
			memcpy(&v, data, sizeof(v));
			*value = data + sizeof(v);
			return pgos_put_int(p, v);
		}
		case PGOS_STORED_PACKED:
			/* one with a short header is not aligned, and its first byte is never zero, as padding is */
			if (in_tuple && !VARATT_NOT_PAD_BYTE(data))
				data += -(uintptr_t) data & col->align_mask;
			if (likely(VARATT_IS_SHORT(data) && !VARATT_IS_EXTERNAL(data)))
			{
				len = VARSIZE_SHORT(data) - VARHDRSZ_SHORT;
				data = VARDATA_SHORT(data);
				*value = data + len;
			}
			else
			{
				*value = data + VARSIZE_ANY(data);
				data = pgos_encode_detoast(enc, data);
				len = VARSIZE_ANY_EXHDR(data);
				data = VARDATA_ANY(data);
			}
			break;
		case PGOS_STORED_VARLENA:
			if (in_tuple && !VARATT_NOT_PAD_BYTE(data))
				data += -(uintptr_t) data & col->align_mask;
			*value = data + VARSIZE_ANY(data);
			break;
		case PGOS_STORED_CSTRING:
			*value = data + strlen(data) + 1;
			break;
	}
	return col->encode(enc, col, data, len, p);
}

/* Moves *value over a value in a tuple. */
static void
pgos_encode_pass_over(PgosEncodeColumn *col, const char **value)
{
	const char *data = *value;

	if (col->attlen != -1 || !VARATT_NOT_PAD_BYTE(data))
		data += -(uintptr_t) data & col->align_mask;
	if (col->attlen > 0)
		*value = data + col->attlen;
	else if (col->attlen == -1)
		*value = data + VARSIZE_ANY(data);
	else
		*value = data + strlen(data) + 1;
}

/* A value that is not in a tuple. */
static char *
pgos_encode_datum(PgosEncoder *enc, PgosEncodeColumn *col, Datum datum, bool isnull, char *p)
{
	Datum		bytes;
	const char *value = (const char *) &bytes;

	p = pgos_encode_room(enc, p, enc->room);
	if (isnull)
		p = pgos_encode_null(enc, p);
	else
	{
		if (col->attbyval)
			store_att_byval(&bytes, datum, col->attlen);
		else
			value = DatumGetPointer(datum);
		p = pgos_encode_stored(enc, col, false, &value, p);
	}
	*p++ = enc->delimiter;
	return p;
}

static char *
pgos_encode_values(PgosEncoder *enc, Datum *values, bool *isnull, char *p)
{
	for (int i = 0; i < enc->count; i++)
	{
		int n = enc->order[i] - 1;

		p = pgos_encode_datum(enc, &enc->columns[n], values[n], isnull[n], p);
	}
	return p;
}

static char *
pgos_encode_walk(PgosEncoder *enc, HeapTuple tuple, char *p)
{
	HeapTupleHeader	  header = tuple->t_data;
	bits8			 *nulls = HeapTupleHasNulls(tuple) ? header->t_bits : NULL;
	const char		 *value = (const char *) header + header->t_hoff;
	PgosEncodeColumn *col = enc->columns;
	PgosEncodeColumn *end = col + Min((int) HeapTupleHeaderGetNatts(header), enc->walk);

	for (; col < end; col++)
	{
		if (unlikely(p > enc->limit))
			p = pgos_encode_make_room(enc, p, enc->room);
		if (nulls != NULL && att_isnull(col - enc->columns, nulls))
		{
			if (col->encode == NULL)
				continue;
			p = pgos_encode_null(enc, p);
		}
		else if (unlikely(col->encode == NULL))
		{
			pgos_encode_pass_over(col, &value);
			continue;
		}
		else
			p = pgos_encode_stored(enc, col, true, &value, p);
		*p++ = enc->delimiter;
	}
	/* columns that were added after the tuple was written */
	for (end = enc->columns + enc->walk; col < end; col++)
	{
		if (col->encode != NULL)
			p = pgos_encode_datum(enc, col, col->missing, col->missing_isnull, p);
	}
	return p;
}

void
pgos_encoder_tuple(PgosEncoder *enc, HeapTuple tuple)
{
	MemoryContext old = MemoryContextSwitchTo(enc->row_context);
	char		 *p;

	if (enc->ascending)
		p = pgos_encode_walk(enc, tuple, enc->p);
	else
	{
		heap_deform_tuple(tuple, enc->desc, enc->values, enc->isnull);
		p = pgos_encode_values(enc, enc->values, enc->isnull, enc->p);
	}
	pgos_encode_end_row(enc, p);
	MemoryContextSwitchTo(old);
}

void
pgos_encoder_slot(PgosEncoder *enc, TupleTableSlot *slot)
{
	MemoryContext old;

	slot_getallattrs(slot);
	old = MemoryContextSwitchTo(enc->row_context);
	pgos_encode_end_row(enc, pgos_encode_values(enc, slot->tts_values, slot->tts_isnull, enc->p));
	MemoryContextSwitchTo(old);
}

int64
pgos_encoder_end(PgosEncoder *enc)
{
	int64 rows = enc->rows;

	/* between two rows the window is the sink's buffer */
	Assert(!enc->in_scratch);
	enc->sink->len = enc->p - enc->sink->buf;
	MemoryContextDelete(enc->context);
	return rows;
}

/* ---------------------------------------------------------------- plan */

/*
 * Whether the values of the plain types (bool, numbers, dates, times, uuid) are their own csv or text whatever
 * they are.  They consist of letters, digits and "+-.: ", and in text there is nothing else to mind.  In csv a
 * value that equals the string for NULL is quoted; plain values begin with a digit, "-", a hexadecimal digit,
 * "t", or are a word for not a number or infinity.
 */
static bool
pgos_encode_options_are_plain(const CopyFormatOptions *options)
{
	static const char *const words[] = {"NaN", "Infinity", "infinity"};
	const char	  marks[2] = {options->delim[0], options->csv_mode ? options->quote[0] : '\t'};
	unsigned char first = (unsigned char) options->null_print[0];

	for (int i = 0; i < (int) lengthof(marks); i++)
	{
		unsigned char c = (unsigned char) marks[i];

		if (IS_HIGHBIT_SET(c) || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			(c >= 'a' && c <= 'z') || strchr("+-.: \\", c) != NULL)
			return false;
	}
	if (!options->csv_mode)
		return true;
	for (int i = 0; i < (int) lengthof(words); i++)
	{
		if (strcmp(options->null_print, words[i]) == 0)
			return false;
	}
	/* \x: bytea */
	return !((first >= '0' && first <= '9') || (first >= 'a' && first <= 'f') || first == 't' ||
			 first == '-' || strncmp(options->null_print, "\\x", 2) == 0);
}

static uint8
pgos_encode_align_mask(char attalign)
{
	switch (attalign)
	{
		case TYPALIGN_CHAR:
			return 0;
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT - 1;
		case TYPALIGN_INT:
			return ALIGNOF_INT - 1;
		default:
			return ALIGNOF_DOUBLE - 1;
	}
}

static void
pgos_encode_plan_columns(PgosEncoder *enc, List *attnums, CopyFormatOptions *options)
{
	ListCell *lc;

	enc->columns = palloc0(enc->desc->natts * sizeof(PgosEncodeColumn));
	for (int i = 0; i < enc->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(enc->desc, i);
		PgosEncodeColumn *col = &enc->columns[i];

		col->attlen = att->attlen;
		col->attbyval = att->attbyval;
		col->align_mask = pgos_encode_align_mask(att->attalign);
		col->force_quote = options->csv_mode && options->force_quote_all;
	}
	if (options->force_quote != NIL)
	{
		List *force_quote = CopyGetAttnums(enc->desc, NULL, options->force_quote);

		foreach (lc, force_quote)
		{
			PgosEncodeColumn *col = &enc->columns[lfirst_int(lc) - 1];

			if (!list_member_int(attnums, lfirst_int(lc)))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
						 errmsg("FORCE_QUOTE column \"%s\" not referenced by COPY",
								NameStr(TupleDescAttr(enc->desc, lfirst_int(lc) - 1)->attname))));
			col->force_quote = true;
		}
	}

	enc->count = list_length(attnums);
	enc->order = palloc((enc->count + 1) * sizeof(AttrNumber));
	enc->ascending = true;
	foreach (lc, attnums)
	{
		AttrNumber		  attnum = lfirst_int(lc);
		PgosEncodeColumn *col = &enc->columns[attnum - 1];

		enc->ascending = enc->ascending && attnum > enc->walk;
		enc->walk = Max(enc->walk, attnum);
		enc->order[foreach_current_index(lc)] = attnum;
		col->missing = getmissingattr(enc->desc, attnum, &col->missing_isnull);
		pgos_encode_choose(enc, col, TupleDescAttr(enc->desc, attnum - 1)->atttypid);
	}
	if (!enc->ascending)
	{
		enc->values = palloc(enc->desc->natts * sizeof(Datum));
		enc->isnull = palloc(enc->desc->natts * sizeof(bool));
	}
}

static void
pgos_encode_header(PgosEncoder *enc)
{
	PgosEncodeColumn plain = {0};
	char			*p = enc->p;

	for (int i = 0; i < enc->count; i++)
	{
		const char *name = NameStr(TupleDescAttr(enc->desc, enc->order[i] - 1)->attname);

		p = pgos_encode_bytes(enc, &plain, name, strlen(name), pgos_encode_room(enc, p, enc->room));
		*p++ = enc->delimiter;
	}
	pgos_encode_end_row(enc, p);
	enc->rows = 0;
}

PgosEncoder *
pgos_encoder_new(TupleDesc desc, List *attnums, CopyFormatOptions *options, PgosSink *sink,
				 PgosCopyTick tick, void *arg)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "pgobjstore encoder", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	PgosEncoder	 *enc = palloc0(sizeof(PgosEncoder));

	Assert(pgos_encoder_refusal(options) == NULL);
	enc->context = context;
	enc->row_context =
		AllocSetContextCreate(context, "pgobjstore encoder row", ALLOCSET_DEFAULT_SIZES);
	enc->sink = sink;
	enc->tick = tick;
	enc->arg = arg;
	enc->ticked = pgos_sink_written(sink);
	enc->csv = options->csv_mode;
	enc->plain = pgos_encode_options_are_plain(options);
	enc->single = list_length(attnums) == 1;
	enc->delimiter = options->delim[0];
	enc->null_print = options->null_print;
	enc->null_len = options->null_print_len;
	enc->room = PGOS_ENCODE_ROOM + enc->null_len;
	pgos_escape_init(&enc->escape, enc->delimiter, enc->csv ? options->quote[0] : '\\',
					 enc->csv ? options->escape[0] : '\\');
	enc->desc = desc;
	pgos_encode_plan_columns(enc, attnums, options);
	enc->p = pgos_encode_open_window(enc);
	if (options->header_line)
		pgos_encode_header(enc);
	MemoryContextSwitchTo(old);
	return enc;
}
